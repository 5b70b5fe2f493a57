package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/record/event"
)

// listExecutionEvents lists the events about one execution, of a verb or of a Map.
func (h *executionHandlers) listExecutionEvents(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	id, err := h.executionIDOf(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	f := event.Filter{ExecutionID: id, Type: v.QueryText(c, "type")}
	if f.Type != "" && !eventType.MatchString(f.Type) {
		v.Add("query.type", "format", "type is a type of event such as action.executed, or a family such as action.*.")
	}
	return h.records.eventPage(ctx, c, &v, f)
}

// executionIDOf returns the execution_id of what the path names, which may be another key of a run.
func (h *executionHandlers) executionIDOf(ctx context.Context, c *wire.Call) (string, error) {
	e, found, err := h.maps.mapExecutionOf(ctx, c)
	if err != nil || found {
		return e.ExecutionID, err
	}
	t, found, err := h.agents.turnOf(ctx, c)
	if err != nil || found {
		return t.ExecutionID, err
	}
	r, err := h.runs.Get(ctx, c.Actor, c.Param("id"))
	return r.ExecutionID, err
}

const (
	// followEvery is how often a stream looks at its execution.
	followEvery = 500 * time.Millisecond
	// followPage is how many steps one look reads at most.
	followPage = 100
)

// streamExecution follows one execution to its end.
func (h *executionHandlers) streamExecution(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var since *int64
	if last := c.Request.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return wire.Reply{}, fault.Invalid("header.Last-Event-ID", "format", "Last-Event-ID is the id of the last message of an earlier stream.")
		}
		since = &n
	}
	if t, found, err := h.agents.turnOf(ctx, c); err != nil || found {
		if err != nil {
			return wire.Reply{}, err
		}
		return wire.Reply{}, h.agents.streamTurn(ctx, c, t)
	}
	e, found, err := h.maps.mapExecutionOf(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	var r run.Run
	if !found {
		if r, err = h.runs.Get(ctx, c.Actor, c.Param("id")); err != nil {
			return wire.Reply{}, err
		}
		e.ExecutionID = r.ExecutionID
	}
	// It counts as a stream of events, and ends as one.
	place, err := h.events.Stream(ctx, c.Actor.TenantID, event.Filter{ExecutionID: e.ExecutionID}, &event.Place{})
	if err != nil {
		return wire.Reply{}, err
	}
	defer place.Close()
	var from source = &runSource{h: h, place: place, who: c.Actor, id: r.ExecutionID}
	if found {
		from = &mapRunSource{h: h, place: place, e: e, since: since, sent: map[string]int32{}}
	}
	return wire.Reply{}, h.streams.streamLive(ctx, c, route{takes: takesKeyOrJWT, roles: anyRole()}, from)
}

// executionStatus is the message of a stream that says how an execution stands.
type executionStatus struct {
	ExecutionID string `json:"execution_id"`
	Status      string `json:"status"`
	Attempt     int32  `json:"attempt"`
}

// mapStatus is the same of a Map, with what it waits for as the execution shows it.
type mapStatus struct {
	executionStatus

	WaitingFor json.RawMessage `json:"waiting_for,omitempty"`
}

// runSource tells of one run.
type runSource struct {
	h     *executionHandlers
	place *event.Stream
	who   actor.Actor
	id    string
	told  executionStatus
}

func (f *runSource) wait(ctx context.Context) bool { return f.place.Pause(ctx, followEvery) }
func (f *runSource) beat() string                  { return "" }

func (f *runSource) next(ctx context.Context) (messages []byte, more, over bool, err error) {
	r, err := f.h.runs.Get(ctx, f.who, f.id)
	if err != nil {
		return nil, false, false, err
	}
	var b bytes.Buffer
	if now := (executionStatus{ExecutionID: r.ExecutionID, Status: r.State.Status(), Attempt: r.Attempt}); now != f.told {
		f.told = now
		err = message(&b, "", "status", now)
	}
	if over = r.State.Ended(); over && err == nil {
		err = message(&b, "", "end", viewRun(r, f.h.now()))
	}
	return b.Bytes(), false, over, err
}

// mapRunSource tells of one execution of a Map.
type mapRunSource struct {
	h     *executionHandlers
	place *event.Stream
	e     mapruns.Execution
	// since is the frontier up to which all steps were told; nil before the first page. turn is the
	// one of the page that is being told, and after the last step of it.
	since, turn *int64
	after       int32
	// sent has the records that were told since that frontier, by the path of the step; telling
	// those of the turn.
	sent, telling map[string]int32
	told          string
}

func (f *mapRunSource) wait(ctx context.Context) bool { return f.place.Pause(ctx, followEvery) }
func (f *mapRunSource) beat() string                  { return f.id() }

// id is the line with the place from which a later stream goes on.
func (f *mapRunSource) id() string {
	if f.since == nil {
		return ""
	}
	return "id: " + strconv.FormatInt(*f.since, 10) + "\n"
}

func (f *mapRunSource) next(ctx context.Context) (messages []byte, more, over bool, err error) {
	p, err := f.h.executions.Since(ctx, f.e, f.since, f.after, followPage)
	if err != nil {
		return nil, false, false, err
	}
	if f.turn == nil {
		f.turn, f.telling = &p.Frontier, map[string]int32{}
	}
	var b bytes.Buffer
	for _, step := range p.Steps {
		f.telling[step.Path], f.after = step.Rev, step.Seq
		if f.sent[step.Path] == step.Rev {
			continue
		}
		if err := message(&b, "", "step", viewMapStep(step)); err != nil {
			return nil, false, false, err
		}
	}
	if p.More {
		return b.Bytes(), true, false, nil
	}
	// The last page has read the execution before its steps. Where it has ended by then, all
	// steps were told.
	f.since, f.sent, f.turn, f.after = f.turn, f.telling, nil, 0
	if err := f.status(ctx, &b, p.Execution); err != nil {
		return nil, false, false, err
	}
	if b.Len() > 0 {
		// What was sent until here is complete: a stream that begins after it misses nothing.
		b.WriteString(f.id() + "\n")
	}
	if over = p.Execution.Ended(); over {
		v, err := shownMapExecution(ctx, f.h.executions, p.Execution, f.h.now())
		if err != nil {
			return nil, false, false, err
		}
		if err := message(&b, "", "end", v); err != nil {
			return nil, false, false, err
		}
	}
	return b.Bytes(), false, over, nil
}

// status tells how the execution stands, where that is new.
func (f *mapRunSource) status(ctx context.Context, b *bytes.Buffer, e mapruns.Execution) error {
	text := string(e.Status) + strconv.Itoa(int(e.Attempt)) + string(e.WaitingFor)
	if text == f.told {
		return nil
	}
	waits, err := f.h.executions.Waiting(ctx, e)
	if err != nil {
		return err
	}
	f.told = text
	return message(b, "", "status", mapStatus{executionStatus{ExecutionID: e.ExecutionID, Status: string(e.Status), Attempt: e.Attempt}, waits})
}
