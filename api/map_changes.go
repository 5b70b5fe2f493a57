package api

import (
	"context"
	"encoding/json"

	"agentruntime/api/wire"
	"agentruntime/internal/kernel/fault"
)

// changesView are the writes that a dry run of a Map has not made.
type changesView struct {
	ExecutionID string       `json:"execution_id"`
	Changes     []changeView `json:"changes"`
}

type changeView struct {
	ID     string          `json:"id"`
	Number int             `json:"number"`
	Verb   string          `json:"verb"`
	Step   string          `json:"step"`
	Args   json.RawMessage `json:"args"`
	// Before is null where nothing was read.
	Before    json.RawMessage `json:"before"`
	DependsOn []string        `json:"depends_on"`
}

func (s *Server) listChanges(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	e, found, err := s.mapExecutionOf(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if !found {
		return wire.Reply{}, fault.New(fault.CodeExecutionNotFound, "No execution of a Map has this id.")
	}
	changes, err := s.deps.Executions.Changes(ctx, e)
	if err != nil {
		return wire.Reply{}, err
	}
	v := changesView{ExecutionID: e.ExecutionID, Changes: make([]changeView, len(changes))}
	for i, change := range changes {
		v.Changes[i] = changeView(change)
	}
	return wire.OK(v), nil
}
