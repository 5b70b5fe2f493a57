package api

import (
	"bytes"
	"context"
	"encoding/json"

	"agentruntime/api/wire"
	mapruns "agentruntime/internal/maps/execution"
)

type signalBody struct {
	Name *string         `json:"name"`
	Data json.RawMessage `json:"data"`
}

// signalMap sends a signal to an execution of a Map.
func (h *mapHandlers) signalMap(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b signalBody
	if err := c.DecodeExact(&b, "/data"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	signal := mapruns.Signal{Name: v.Text("/name", b.Name, 255), Data: bytes.TrimSpace(b.Data)}
	if len(signal.Data) == 0 {
		signal.Data = json.RawMessage("null")
	}
	if len(signal.Data) > mapruns.MostSignalData {
		v.Add("/data", "maxLength", "data has at most 32 KiB.")
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	e, err := h.namedExecution(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if e, err = h.executions.Signal(ctx, c.Actor, e, signal); err != nil {
		return wire.Reply{}, err
	}
	return h.answerMapExecution(ctx, e)
}
