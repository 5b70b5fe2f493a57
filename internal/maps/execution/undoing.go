package execution

import (
	"context"

	"agentruntime/internal/kernel/stepmachine"
)

// Undoing is what came of undoing the steps of an execution that failed or was cancelled.
type Undoing struct {
	// Undone is how many steps were undone, NotUndone how many were not.
	Undone    int `json:"undone"`
	NotUndone int `json:"not_undone"`
	// Calls are the first 100 calls that did not undo their step, in the order in which they were made.
	Calls []UndoingCall `json:"calls,omitempty"`
}

// UndoingCall is a call that did not undo its step.
type UndoingCall struct {
	// Path names the step that it should have undone, as Step does.
	Path string `json:"path"`
	Verb string `json:"verb"`
	// ExecutionID names the call; "" where it was refused before it had a name.
	ExecutionID string `json:"execution_id,omitempty"`
	// Status is how it ended: failed, outcome_unknown or cancelled.
	Status stepmachine.CallStatus `json:"status"`
	// Code and Title are those of its error; "" where it has none.
	Code  string `json:"code,omitempty"`
	Title string `json:"title,omitempty"`
}

// any reports whether a step was to be undone.
func (u Undoing) any() bool { return u.Undone+u.NotUndone > 0 }

// undoingOf returns what came of undoing the steps. It reads each call that it lists.
func (s *Service) undoingOf(ctx context.Context, e Execution, f stepmachine.Finish, unwritten []stepmachine.Command) (Undoing, error) {
	u := Undoing{Undone: f.Compensated, NotUndone: len(f.NotCompensated) + f.MoreNotCompensated}
	for _, left := range f.NotCompensated {
		kept, err := s.Kept(ctx, e, left.Seq, unwritten)
		if err != nil {
			return u, err
		}
		call := UndoingCall{Path: pathOf(kept.Ref), Verb: kept.Verb, ExecutionID: left.Call, Status: left.Status, Code: left.Code, Title: left.Title}
		if kept.Error != nil {
			call.Status, call.Code, call.Title = stepmachine.CallFailed, kept.Error.Code, kept.Error.Title
		}
		u.Calls = append(u.Calls, call)
	}
	return u, nil
}
