package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/customer"
)

// erasureView is how far the erasure of a customer is.
type erasureView struct {
	CustomerID  uuid.UUID          `json:"customer_id"`
	Status      string             `json:"status"`
	RequestedBy string             `json:"requested_by"`
	RequestedAt time.Time          `json:"requested_at"`
	CompletedAt *time.Time         `json:"completed_at"`
	Erased      []event.ErasedKind `json:"erased"`
}

func viewErasure(e customer.Erasure) erasureView {
	v := erasureView{
		CustomerID: e.CustomerID, Status: "running", RequestedBy: e.RequestedBy, RequestedAt: e.RequestedAt, CompletedAt: e.CompletedAt, Erased: e.Erased,
	}
	if e.Completed() {
		v.Status = "completed"
	}
	return v
}

func (h *customerHandlers) eraseCustomer(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if _, err := h.customers.Erase(ctx, c.Actor, c.Param("id"), wire.Expect(c, customerTag)); err != nil {
		return wire.Reply{}, err
	}
	return wire.Deleted(), nil
}

func (h *customerHandlers) getErasure(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	e, err := h.customers.Erasure(ctx, c.Actor.TenantID, c.ID())
	return wire.Answer(viewErasure, e, err)
}
