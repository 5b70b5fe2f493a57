package flow

import (
	"time"

	"github.com/google/uuid"
)

// KindDelivery is one delivery of an event to a webhook.
const KindDelivery Kind = "delivery"

// DeliveryRef names one round of a delivery. Its row has everything else.
type DeliveryRef struct {
	TenantID  uuid.UUID `json:"tenant_id"`
	WebhookID uuid.UUID `json:"webhook_id"`
	EventID   uuid.UUID `json:"event_id"`
	Round     int32     `json:"round"`
}

// DeliveryInput starts a Delivery workflow.
type DeliveryInput struct {
	DeliveryRef
	// ShowsState: AttributeState is registered, so the workflow may set it.
	ShowsState bool `json:"shows_state,omitempty"`
}

// DeliveryState is the state of a delivery's row.
type DeliveryState string

// The states. A delivery in one of the last three does nothing further by itself.
const (
	// DeliveryPending waits for its first attempt.
	DeliveryPending DeliveryState = "pending"
	// DeliveryRetrying waits for another attempt, which its workflow makes.
	DeliveryRetrying DeliveryState = "retrying"
	// DeliveryDelivered was answered with a status of 200 to 299.
	DeliveryDelivered DeliveryState = "delivered"
	// DeliveryFailed has no attempt left.
	DeliveryFailed DeliveryState = "failed"
	// DeliveryCancelled has ended because its webhook was disabled or deleted.
	DeliveryCancelled DeliveryState = "cancelled"
)

// DeliveryStates lists every state.
func DeliveryStates() []DeliveryState {
	return []DeliveryState{DeliveryPending, DeliveryRetrying, DeliveryDelivered, DeliveryFailed, DeliveryCancelled}
}

// Ended reports whether a delivery in this state does nothing further by itself.
func (s DeliveryState) Ended() bool { return s != DeliveryPending && s != DeliveryRetrying }

// DeliveryResult is how a delivery ended.
type DeliveryResult struct {
	State DeliveryState `json:"state"`
}

// DeliveryStep is what one attempt leads to.
type DeliveryStep struct {
	DeliveryResult
	// After is how long to wait before the next attempt, where the state has not ended.
	After time.Duration
}

// WorkflowID returns the id of the workflow of the round.
func (r DeliveryRef) WorkflowID() string {
	return workflowID("delivery", "evt_"+r.EventID.String(), r.TenantID, r.WebhookID.String()+r.EventID.String(), r.Round)
}
