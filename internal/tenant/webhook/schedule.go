package webhook

import (
	"net/http"
	"time"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/event"
)

// schedule has the pause after each failed attempt but the last: the specification's.
func schedule() []time.Duration {
	return []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour}
}

// Reason is why the service disabled a webhook.
type Reason string

// The reasons.
const (
	// ReasonGone: the receiver answered 410.
	ReasonGone Reason = "gone"
	// ReasonFailing: the last attempt of a delivery failed, and no delivery succeeded since its first.
	ReasonFailing Reason = "failing"
)

// verdict is what follows from one attempt.
type verdict struct {
	state flow.DeliveryState
	next  time.Time // of the next attempt; zero where none follows
	// disable is why the webhook is disabled; "" where it is not. ReasonFailing counts only where no
	// delivery succeeded meanwhile.
	disable Reason
}

// judge returns what follows from the attempt number n of a round, the first is 1, of an event of
// the type t. code is the status that was answered, 0 where none was.
func judge(t event.Type, n, code int, now time.Time) verdict {
	switch pauses := schedule(); {
	case code >= 200 && code <= 299:
		return verdict{state: flow.DeliveryDelivered}
	case t == event.WebhookTest:
		return verdict{state: flow.DeliveryFailed}
	case code == http.StatusGone:
		return verdict{state: flow.DeliveryFailed, disable: ReasonGone}
	case n > len(pauses):
		return verdict{state: flow.DeliveryFailed, disable: ReasonFailing}
	default:
		return verdict{state: flow.DeliveryRetrying, next: now.Add(pauses[n-1])}
	}
}
