package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/auth"
)

const (
	// heartbeatEvery is the longest silence of a stream: proxies often end a connection that is
	// silent for 30 s or more.
	heartbeatEvery = 15 * time.Second
	// checkEvery is how old the look at a stream's session or key may be when events are sent.
	checkEvery = 5 * time.Second
	// reconnectAfter is what a client is told to wait before it connects again, in milliseconds.
	reconnectAfter = "2000"
)

// eventStream is one answer of streamEvents.
type eventStream struct {
	*event.Stream

	s       *Server
	c       *wire.Call
	w       io.Writer
	checked time.Time // when the credential was last looked at
	told    time.Time // when something was last written
}

func (s *Server) streamEvents(ctx context.Context, c *wire.Call) (wire.Reply, error) {
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
	stream, err := s.deps.Events.Stream(ctx, c.Actor.TenantID, f, after)
	if err != nil {
		return wire.Reply{}, err
	}
	defer stream.Close()
	h := c.ResponseHeader()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers the answer would deliver nothing
	return wire.Reply{}, c.Stream(func(w io.Writer) error {
		return (&eventStream{Stream: stream, s: s, c: c, w: w, checked: s.deps.Now()}).run(ctx)
	})
}

// run sends events until the caller goes, their credential ends or the process stops. What it
// could not send is there for the next stream, from its Last-Event-ID on.
func (e *eventStream) run(ctx context.Context) error {
	if err := e.write([]byte("retry: " + reconnectAfter + "\n\n")); err != nil {
		return err
	}
	for {
		more, err := e.next(ctx)
		switch {
		case ctx.Err() != nil:
			return e.end(context.Cause(ctx))
		case fault.HasCode(err, fault.CodeServiceUnavailable):
			e.c.Log.WarnContext(ctx, "a stream waits for the database", "error", err) // the next turn tries again
		case err != nil:
			return e.end(err)
		}
		if more {
			continue
		}
		if e.Wait(ctx, heartbeatEvery) {
			return nil
		}
	}
}

// next sends a page of events, or a heartbeat where it is time for one.
func (e *eventStream) next(ctx context.Context) (more bool, err error) {
	page, more, err := e.Next(ctx)
	if err != nil {
		return false, err
	}
	now := e.s.deps.Now()
	silent := now.Sub(e.told) >= heartbeatEvery
	if len(page) == 0 && !silent {
		return more, nil
	}
	if silent || now.Sub(e.checked) >= checkEvery {
		if err := e.check(ctx); err != nil {
			return false, err
		}
		e.checked = now
	}
	var b bytes.Buffer
	for _, ev := range page {
		body, err := json.Marshal(eventView{ev})
		if err != nil {
			return false, err
		}
		b.WriteString("id: " + eventID(ev.Place) + "\nevent: " + string(ev.Type) + "\ndata: ")
		b.Write(body)
		b.WriteString("\n\n")
	}
	if len(page) == 0 {
		// The id lets a stream with a narrow filter go on from here.
		b.WriteString(": heartbeat\nid: " + eventID(e.Place()) + "\n\n")
	}
	return more, e.write(b.Bytes())
}

func (e *eventStream) write(b []byte) error {
	e.told = e.s.deps.Now()
	_, err := e.w.Write(b)
	return err
}

// check looks at the caller's session or key again, as if they called now.
func (e *eventStream) check(ctx context.Context) error {
	rt := route{takes: takesKeyOrJWT, roles: anyRole(), permission: auth.PermEventsRead}
	who, err := e.s.authenticate(auth.Uncounted(ctx), rt, e.c)
	if err != nil {
		return err
	}
	if err := checkAddress(e.c, who); err != nil {
		return err
	}
	return authorise(rt, who)
}

// end tells the caller why the stream ends. A caller who is gone does not hear it.
func (e *eventStream) end(cause error) error {
	f := fault.As(cause)
	if f == nil {
		return cause
	}
	body, err := json.Marshal(wire.ErrorBody{Code: f.Code, Message: f.Message, RequestID: e.c.Actor.RequestID})
	if err != nil {
		return err
	}
	return e.write([]byte("event: error\ndata: " + string(body) + "\n\n"))
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
