package execution

import (
	"context"
	"encoding/json"
	"fmt"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
)

// Question returns what the manager of a step asks, for which the execution waits; "" where it waits for
// nothing of the kind.
func (s *rows) Question(ctx context.Context, e Execution) (string, error) {
	w := e.Waits()
	if w == nil || w.Ask == 0 {
		return "", nil
	}
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return "", fmt.Errorf("execution: question: %w", err)
	}
	rows, err := s.q.ModelCallsOfStep(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.ModelCallsOfStepParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(w.Ref), Attempt: int32(w.Ref.Attempt),
	})
	if err != nil {
		return "", fmt.Errorf("execution: question: %w", err)
	}
	if w.Ask > len(rows) {
		return "", nil
	}
	var turn ModelTurn
	err = openRuling(key, modelPlace(e, w.Ref, w.Ask-1, datakey.ModelRuling), rows[w.Ask-1].Ruling, &turn)
	if err != nil || turn.Ruling == nil {
		return "", err
	}
	return turn.Ruling.Feedback, nil
}

// waitingForAnswer returns what the execution waits for, with the question, masked.
func (s *rows) waitingForAnswer(ctx context.Context, e Execution) (json.RawMessage, error) {
	question, err := s.Question(ctx, e)
	if err != nil || question == "" {
		return e.WaitingFor, err
	}
	return mustJSON(struct {
		*stepmachine.WaitsFor

		Question string `json:"question"`
	}{e.Waits(), redact.Text(question)}), nil
}
