package api

import (
	"context"
	"encoding/json"

	"agentruntime/api/wire"
	"agentruntime/internal/record/event"
)

type eventBody struct {
	ID        *string         `json:"id"`
	Type      *string         `json:"type"`
	Data      json.RawMessage `json:"data"`
	Correlate *string         `json:"correlate"`
}

func (h *recordHandlers) sendEvent(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b eventBody
	if err := c.DecodeExact(&b, "/data"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	sent := event.Sent{ID: v.Text("/id", b.ID, 255), Type: event.Type(v.Text("/type", b.Type, 255)), Data: json.RawMessage(`{}`)}
	switch {
	case sent.ID == "":
	case !wire.VisibleASCII(sent.ID, 255):
		v.Add("/id", "format", "id has 1 to 255 visible ASCII characters.")
	case event.Reserved(sent.ID):
		v.Add("/id", "format", "An id that begins with evt_ is one of the service.")
	}
	if sent.Type != "" && !sent.Type.ValidCustom() {
		v.Add("/type", "pattern", "type is custom. and 1 to 100 of a-z, 0-9, dot, dash and underscore. Only the service sends other types.")
	}
	if len(b.Data) > 0 && string(b.Data) != "null" {
		sent.Data = v.Object("/data", b.Data, false)
	}
	if len(sent.Data) > event.MostData {
		v.Add("/data", "maxLength", "data has at most 60 KiB.")
	}
	v.OptionalText("/correlate", b.Correlate, 1, 255)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if b.Correlate != nil {
		sent.Correlate = *b.Correlate
	}
	e, fresh, err := h.events.Send(ctx, c.Actor, sent)
	if err != nil {
		return wire.Reply{}, err
	}
	if !fresh {
		return wire.OK(eventView{e}), nil
	}
	return wire.Created("/v1/events/"+event.PublicID(e.ID), eventView{e}), nil
}

// eventTypeView is one type of event.
type eventTypeView struct {
	Type        event.Type      `json:"type"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Example     json.RawMessage `json:"example"`
}

func (h *recordHandlers) listEventTypes(context.Context, *wire.Call) (wire.Reply, error) {
	var views []eventTypeView
	for _, t := range event.Types() {
		views = append(views, eventTypeView{t.Type, t.When, t.Schema(), t.Example()})
	}
	return wire.OK(views), nil
}
