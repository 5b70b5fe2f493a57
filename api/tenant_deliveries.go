package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/webhook"
)

// deliveryView is one event for one webhook.
type deliveryView struct {
	ID            string             `json:"id"`
	Event         event.Type         `json:"event"`
	Status        flow.DeliveryState `json:"status"`
	Round         int                `json:"round"`
	NextAttemptAt *time.Time         `json:"next_attempt_at"`
	UpdatedAt     time.Time          `json:"updated_at"`
	Attempts      []attemptView      `json:"attempts"`
}

type attemptView struct {
	Round         int              `json:"round"`
	Attempt       int              `json:"attempt"`
	StartedAt     time.Time        `json:"started_at"`
	LatencyMS     int64            `json:"latency_ms"`
	StatusCode    *int             `json:"status_code"`
	Error         *webhook.Problem `json:"error"`
	Answer        string           `json:"answer"`
	NextAttemptAt *time.Time       `json:"next_attempt_at"`
}

func viewDelivery(d webhook.Delivery) deliveryView {
	v := deliveryView{
		ID: event.PublicID(d.EventID), Event: d.Type, Status: d.State, Round: d.Round, NextAttemptAt: d.NextAt, UpdatedAt: d.UpdatedAt,
		Attempts: make([]attemptView, len(d.Made)),
	}
	for i, a := range d.Made {
		v.Attempts[i] = attemptView{Round: a.Round, Attempt: a.Number, StartedAt: a.StartedAt, LatencyMS: a.Latency.Milliseconds(), Answer: a.Answer, NextAttemptAt: a.NextAt}
		if a.Code != 0 {
			v.Attempts[i].StatusCode = &a.Code
		}
		if a.Problem != "" {
			v.Attempts[i].Error = &a.Problem
		}
	}
	return v
}

func (h *tenantHandlers) testWebhook(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := h.webhooks.Test(ctx, c.Actor, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{Status: http.StatusAccepted, Data: viewDelivery(d)}, nil
}

func (h *tenantHandlers) listDeliveries(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f := webhook.Filter{}
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	f.State = wire.QueryOneOf(&v, c, "status", flow.DeliveryStates()...)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	page, more, err := h.webhooks.Deliveries(ctx, c.Actor.TenantID, c.ID(), f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, page, more, viewDelivery, func(d webhook.Delivery) uuid.UUID { return d.EventID }), nil
}

func (h *tenantHandlers) getDelivery(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := h.webhooks.Delivery(ctx, c.Actor.TenantID, c.ID(), c.Param("delivery"))
	return wire.Answer(viewDelivery, d, err)
}

func (h *tenantHandlers) redeliver(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := h.webhooks.Redeliver(ctx, c.Actor, c.ID(), c.Param("delivery"))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{Status: http.StatusAccepted, Data: viewDelivery(d)}, nil
}

type recoverBody struct {
	Since *string `json:"since"`
}

// recovered is the answer of recoverDeliveries.
type recovered struct {
	Recovered int  `json:"recovered"`
	HasMore   bool `json:"has_more"`
}

func (h *tenantHandlers) recoverDeliveries(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b recoverBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	since := v.Time("/since", b.Since)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	n, more, err := h.webhooks.Recover(ctx, c.Actor, c.ID(), since)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{Status: http.StatusAccepted, Data: recovered{n, more}}, nil
}
