package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
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

// liveStreams answers calls with streams.
type liveStreams struct {
	gate *gate
	now  func() time.Time
}

// liveStream is an answer that goes on: server-sent events, as they happen.
type liveStream struct {
	of *liveStreams
	c  *wire.Call
	w  io.Writer
	// asks is what the caller must be allowed as long as the stream lasts.
	asks    route
	checked time.Time // when the credential was last looked at
	told    time.Time // when something was last written

	source
}

// source is what a stream tells.
type source interface {
	// next returns the messages that are there now; none where there are none. more says that a
	// second call finds more, over that the stream ends with these.
	next(ctx context.Context) (messages []byte, more, over bool, err error)
	// beat returns what a heartbeat says besides: an id, or nothing.
	beat() string
	// wait returns when there may be more, with ended when the process stops.
	wait(ctx context.Context) (ended bool)
}

// message adds one message to b; id may be "".
func message(b *bytes.Buffer, id, name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(body)
	b.WriteString("\n\n")
	return nil
}

// live answers with what the source tells, until the caller goes, their credential ends or
// the process stops. What it could not send is there for the next stream, from its Last-Event-ID on.
func (h *liveStreams) live(ctx context.Context, c *wire.Call, asks route, from source) error {
	header := c.ResponseHeader()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy that gathers the answer would deliver nothing
	return c.Stream(func(w io.Writer) error {
		return (&liveStream{of: h, c: c, w: w, asks: asks, checked: h.now(), source: from}).run(ctx)
	})
}

func (e *liveStream) run(ctx context.Context) error {
	if err := e.write([]byte("retry: " + reconnectAfter + "\n\n")); err != nil {
		return err
	}
	for {
		more, over, err := e.step(ctx)
		switch {
		case ctx.Err() != nil:
			return e.end(context.Cause(ctx))
		case fault.HasCode(err, fault.CodeServiceUnavailable):
			e.c.Log.WarnContext(ctx, "a stream waits for the database", "error", err) // the next turn tries again
		case err != nil:
			return e.end(err)
		}
		if over {
			return nil
		}
		if more {
			continue
		}
		if e.wait(ctx) {
			return nil
		}
	}
}

// step sends what is new, or a heartbeat where it is time for one.
func (e *liveStream) step(ctx context.Context) (more, over bool, err error) {
	messages, more, over, err := e.next(ctx)
	if err != nil {
		return false, false, err
	}
	now := e.of.now()
	silent := now.Sub(e.told) >= heartbeatEvery
	if len(messages) == 0 && !silent {
		return more, over, nil
	}
	if silent || now.Sub(e.checked) >= checkEvery {
		if err := e.check(ctx); err != nil {
			return false, false, err
		}
		e.checked = now
	}
	if len(messages) == 0 {
		messages = []byte(": heartbeat\n" + e.beat() + "\n")
	}
	return more, over, e.write(messages)
}

func (e *liveStream) write(b []byte) error {
	e.told = e.of.now()
	_, err := e.w.Write(b)
	return err
}

// check looks at the caller's session or key again, as if they called now.
func (e *liveStream) check(ctx context.Context) error {
	who, err := e.of.gate.authenticate(auth.Uncounted(ctx), e.asks, e.c)
	if err != nil {
		return err
	}
	if err := checkAddress(e.c, who); err != nil {
		return err
	}
	return authorise(e.asks, who)
}

// end tells the caller why the stream ends. A caller who is gone does not hear it.
func (e *liveStream) end(cause error) error {
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
