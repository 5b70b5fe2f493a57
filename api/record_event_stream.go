package api

import (
	"bytes"
	"context"
	"encoding/base64"

	"agentruntime/api/wire"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/auth"
)

// eventSource are the events of a tenant.
type eventSource struct{ *event.Stream }

func (e eventSource) wait(ctx context.Context) bool { return e.Wait(ctx, heartbeatEvery) }

// beat lets a stream with a narrow filter go on from here.
func (e eventSource) beat() string { return "id: " + eventID(e.Place()) + "\n" }

func (e eventSource) next(ctx context.Context) ([]byte, bool, bool, error) {
	page, more, err := e.Next(ctx)
	if err != nil {
		return nil, false, false, err
	}
	var b bytes.Buffer
	for _, ev := range page {
		if err := message(&b, eventID(ev.Place), string(ev.Type), eventView{ev}); err != nil {
			return nil, false, false, err
		}
	}
	return b.Bytes(), more, false, nil
}

func (h *recordHandlers) streamEvents(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var v wire.Validation
	f := eventFilter(&v, c)
	var after *event.Place
	if last := c.Request.Header.Get("Last-Event-ID"); last != "" {
		place, ok := parseEventID(last)
		if !ok {
			v.Add("header.Last-Event-ID", "format", "Last-Event-ID is the id of the last event of an earlier stream.")
		}
		after = &place
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	stream, err := h.events.Stream(ctx, c.Actor.TenantID, f, after)
	if err != nil {
		return wire.Reply{}, err
	}
	defer stream.Close()
	return wire.Reply{}, h.streams.live(ctx, c, route{takes: takesKeyOrJWT, roles: anyRole(), permission: auth.PermEventsRead}, eventSource{stream})
}

// eventID returns the id of a message: the place of its event. A page of GET /v1/events begins
// after such a place too.
func eventID(p event.Place) string { return base64.RawURLEncoding.EncodeToString([]byte(p.String())) }

func parseEventID(text string) (event.Place, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return event.Place{}, false
	}
	return event.ParsePlace(string(raw))
}
