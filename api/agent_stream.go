package api

import (
	"bytes"
	"context"
	"mime"
	"strconv"
	"strings"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/auth"
)

const eventStream = "text/event-stream"

// lookEvery is how often a stream of a reply looks for what it was not told of.
const lookEvery = 2 * time.Second

// wantsStream reports whether the caller takes a stream.
func wantsStream(accept []string) bool {
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if q, e := strconv.ParseFloat(params["q"], 64); err == nil && kind == eventStream && (e != nil || q > 0) {
			return true
		}
	}
	return false
}

// lastEvent returns the number of the last message that an earlier stream has sent; 0 for none.
func lastEvent(c *wire.Call) (int32, error) {
	last := c.Request.Header.Get("Last-Event-ID")
	if last == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(last, 10, 32)
	if err != nil || n < 0 {
		return 0, fault.Invalid("header.Last-Event-ID", "format", "Last-Event-ID is the id of the last message of an earlier stream.")
	}
	return int32(n), nil
}

// streamMessage answers a message with its reply while that is written. The place of the stream is
// taken first: a message that cannot be streamed is not answered.
func (h *agentHandlers) streamMessage(ctx context.Context, c *wire.Call, req conversation.Request) error {
	after, err := lastEvent(c)
	if err != nil {
		return err
	}
	seat, err := h.events.Seat(c.Actor.TenantID)
	if err != nil {
		return err
	}
	defer seat.Close()
	req.Streamed = true
	out, err := h.conversations.Begin(ctx, c.Actor, req)
	if err != nil {
		return err
	}
	return h.streamReply(ctx, c, seat, out, after, route{takes: takesKey, permission: auth.PermAgentsMessage})
}

// streamTurn follows the reply to a message.
func (h *agentHandlers) streamTurn(ctx context.Context, c *wire.Call, t conversation.Turn) error {
	after, err := lastEvent(c)
	if err != nil {
		return err
	}
	seat, err := h.events.Seat(c.Actor.TenantID)
	if err != nil {
		return err
	}
	defer seat.Close()
	return h.streamReply(ctx, c, seat, conversation.Outcome{Turn: t, Cached: true}, after, route{takes: takesKeyOrJWT, roles: anyRole()})
}

func (h *agentHandlers) streamReply(ctx context.Context, c *wire.Call, seat *event.Stream, out conversation.Outcome, after int32, asks route) error {
	follower, err := h.conversations.Follow(ctx, out.Turn, after, seat.Wake)
	if err != nil {
		return err
	}
	defer follower.Close()
	c.ResponseHeader().Set("Location", executionPath(out.Turn.ExecutionID))
	return h.streams.live(ctx, c, asks, &replySource{h: h, c: c, seat: seat, follower: follower, cached: out.Cached, masked: !out.Turn.MaySee(c.Actor)})
}

// replySource tells of one reply while it is written.
type replySource struct {
	h        *agentHandlers
	c        *wire.Call
	seat     *event.Stream
	follower *conversation.Follower
	cached   bool
	// masked: the reader may not read the text as it is written, only masked and as a whole.
	masked bool
}

func (f *replySource) wait(ctx context.Context) bool { return f.seat.Wait(ctx, lookEvery) }
func (f *replySource) beat() string                  { return "" }

func (f *replySource) next(ctx context.Context) (messages []byte, more, over bool, err error) {
	rows, more, end, number, err := f.follower.Next(ctx)
	if err != nil {
		return nil, false, false, err
	}
	var b bytes.Buffer
	for _, row := range rows {
		if f.masked && (row.Event == conversation.ToldDelta || row.Event == conversation.ToldReset) {
			continue
		}
		if err := message(&b, strconv.Itoa(int(row.Seq)), string(row.Event), row.Body); err != nil {
			return nil, false, false, err
		}
	}
	if end == nil {
		return b.Bytes(), more, false, nil
	}
	name, body := f.end(*end)
	err = message(&b, strconv.Itoa(int(number)), name, body)
	return b.Bytes(), false, true, err
}

// end returns the last message: what the call without a stream answers.
func (f *replySource) end(t conversation.Turn) (name string, body any) {
	if f.masked && t.Reply != nil {
		t.Reply = new(redact.Text(*t.Reply))
	}
	name, answer := "message.completed", func(out conversation.Outcome) (wire.Reply, error) { return f.h.answerMessage(out, false) }
	if t.Kind == kindGoal {
		name, answer = "goal.ended", answerGoal
	}
	rep, err := answer(conversation.Outcome{Turn: t, Cached: f.cached})
	if failed := fault.As(err); failed != nil {
		return "error", f.c.ErrorBody(failed)
	}
	return name, rep.Data
}
