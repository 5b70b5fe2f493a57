package api

import (
	"context"
	"encoding/json"
	"regexp"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/event"
)

// Events is what the event endpoints need.
type Events interface {
	Before(ctx context.Context, tenant uuid.UUID, f event.Filter, at *event.Place, limit int) (page []event.Stored, more bool, err error)
	After(ctx context.Context, tenant uuid.UUID, f event.Filter, at event.Place, limit int) (page []event.Stored, more bool, err error)
	Get(ctx context.Context, tenant uuid.UUID, id string) (event.Stored, error)
	Send(ctx context.Context, who actor.Actor, sent event.Sent) (out event.Stored, fresh bool, err error)
	Stream(ctx context.Context, tenant uuid.UUID, f event.Filter, after *event.Place) (*event.Stream, error)
	// Seat returns the place of a stream that tells something else than events.
	Seat(tenant uuid.UUID) (*event.Stream, error)
}

// unreadableEvent is what is shown of an event whose stored body does not open.
type unreadableEvent struct {
	Event      event.Type `json:"event"`
	EventID    string     `json:"event_id"`
	Unreadable bool       `json:"unreadable"`
}

// eventView is the body that all receivers get.
type eventView struct{ event.Stored }

// MarshalJSON implements json.Marshaler.
func (e eventView) MarshalJSON() ([]byte, error) {
	if e.Body == nil {
		return json.Marshal(unreadableEvent{e.Type, event.PublicID(e.ID), true})
	}
	return e.Body, nil
}

func (h *recordHandlers) listEvents(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var v wire.Validation
	return h.eventPage(ctx, c, &v, eventFilter(&v, c))
}

// eventPage answers with the events that the filter lets pass.
func (h *recordHandlers) eventPage(ctx context.Context, c *wire.Call, v *wire.Validation, f event.Filter) (wire.Reply, error) {
	limit, err := c.Limit()
	if err != nil {
		return wire.Reply{}, err
	}
	at, given, err := wire.QueryCursor(c, event.ParsePlace)
	if err != nil {
		return wire.Reply{}, err
	}
	order := wire.QueryOneOf(v, c, "order", "desc", "asc")
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	var page []event.Stored
	var more bool
	switch {
	case order == "asc":
		page, more, err = h.events.After(ctx, c.Actor.TenantID, f, at, limit)
	case given:
		page, more, err = h.events.Before(ctx, c.Actor.TenantID, f, &at, limit)
	default:
		page, more, err = h.events.Before(ctx, c.Actor.TenantID, f, nil, limit)
	}
	if err != nil {
		return wire.Reply{}, err
	}
	views := make([]eventView, len(page))
	for i, e := range page {
		views[i], at = eventView{e}, e.Place
	}
	next := wire.PageAfter(limit, more, at.String())
	if order == "asc" {
		next = wire.PageUpTo(limit, more, at.String())
	}
	return wire.Reply{Data: views, Page: next}, nil
}

// eventType is the form of a type, or of a family of types.
var eventType = regexp.MustCompile(`^[a-z0-9_.-]{1,200}(\.\*)?$|^\*$`)

func eventFilter(v *wire.Validation, c *wire.Call) (f event.Filter) {
	if f.Type = v.QueryText(c, "type"); f.Type != "" && !eventType.MatchString(f.Type) {
		v.Add("query.type", "format", "type is a type of event such as action.executed, or a family such as action.*.")
	}
	f.ExecutionID, f.SessionID, f.CustomerID = v.QueryText(c, "execution_id"), v.QueryText(c, "session_id"), v.QueryText(c, "customer_id")
	f.From, f.To = v.QueryTime(c, "from"), v.QueryTime(c, "to")
	return f
}

func (h *recordHandlers) getEvent(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	e, err := h.events.Get(ctx, c.Actor.TenantID, c.Param("id"))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(eventView{e}), nil
}
