package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
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

// Waiting returns what the execution waits for, with the approval that people decide, or the question.
func (s *rows) Waiting(ctx context.Context, e Execution) (json.RawMessage, error) {
	w := e.Waits()
	switch {
	case e.Status == stepmachine.StatusPending:
		return s.waitingForApproval(ctx, e)
	case w != nil && w.Ask > 0:
		return s.waitingForAnswer(ctx, e)
	default:
		return e.WaitingFor, nil
	}
}

// waitingForApproval returns what the execution waits for, with the id of the approval.
func (s *rows) waitingForApproval(ctx context.Context, e Execution) (json.RawMessage, error) {
	var w struct {
		*stepmachine.WaitsFor
		ApprovalID string `json:"approval_id,omitempty"`
	}
	if err := json.Unmarshal(e.WaitingFor, &w); err != nil || w.WaitsFor == nil {
		return e.WaitingFor, err
	}
	ids, err := s.q.PendingOfMap(ctx, s.d.DB.Reading(e.TenantID, db.ListLimit), dbsqlc.PendingOfMapParams{
		TenantID: e.TenantID, SubjectType: string(approval.SubjectMapStep), SubjectID: subjectOf(e.Ref(), w.Ref), Execution: e.ID, Path: pathOf(w.Ref), UndoneBy: w.UndoneBy,
	})
	if err != nil {
		return nil, fmt.Errorf("execution: approval of %s: %w", e.ID, err)
	}
	w.ApprovalID = strings.Join(ids, "")
	return mustJSON(w), nil
}
