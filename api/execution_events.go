package api

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/event"
)

// listExecutionEvents lists the events about one execution, of a verb or of a Map.
func (h *executionHandlers) listExecutionEvents(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	e, _, err := h.find(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	id, err := e.executionID(ctx, c)
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
	e, _, err := h.find(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Reply{}, e.stream(ctx, c, since)
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
