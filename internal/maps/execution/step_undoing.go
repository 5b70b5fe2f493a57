package execution

import (
	"context"

	"agentruntime/internal/maps/stepmachine"
)

// mostListed is how many steps of a kind an execution lists.
const mostListed = 100

// Undoing is what came of undoing the steps of an execution that failed or was cancelled.
type Undoing struct {
	// Undone is how many steps were undone, NotUndone how many were not.
	Undone    int `json:"undone"`
	NotUndone int `json:"not_undone"`
	// Unknown is how many calls of steps have an outcome that nobody knows. They are not touched.
	// UnknownSteps are the first 100 of these steps, by their paths.
	Unknown      int      `json:"unknown,omitempty"`
	UnknownSteps []string `json:"unknown_steps,omitempty"`
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

// any reports whether there is something to say.
func (u Undoing) any() bool { return u.Undone+u.NotUndone+u.Unknown > 0 }

// undoingOf returns what came of undoing the steps. It reads the calls that it lists at once.
func (s *steps) undoingOf(ctx context.Context, e Execution, f stepmachine.Finish, unwritten []stepmachine.Command) (u Undoing, err error) {
	if f.Status == stepmachine.StatusCompleted {
		return u, nil
	}
	u = Undoing{Undone: f.Compensated, NotUndone: len(f.NotCompensated) + f.MoreNotCompensated, Unknown: len(f.Unknown)}
	for _, ref := range f.Unknown[:min(len(f.Unknown), mostListed)] {
		u.UnknownSteps = append(u.UnknownSteps, pathOf(ref))
	}
	if len(f.NotCompensated) == 0 {
		return u, nil
	}
	l, err := s.newLoader(ctx, e, unwritten)
	if err != nil {
		return u, err
	}
	var names []string
	for _, left := range f.NotCompensated {
		names = append(names, compensation(left.Seq))
	}
	if err := l.readAll(names); err != nil {
		return u, err
	}
	for _, left := range f.NotCompensated {
		kept, err := l.openKept(left.Seq)
		if err != nil {
			return u, err
		}
		call := UndoingCall{Path: pathOf(kept.Ref), Verb: kept.Verb, ExecutionID: left.Call, Status: left.Status, Code: left.Code, Title: left.Title}
		if call.Status == "" { // it could not be made
			call.Status = stepmachine.CallFailed
		}
		if kept.Error != nil {
			call.Code, call.Title = kept.Error.Code, kept.Error.Title
		}
		u.Calls = append(u.Calls, call)
	}
	return u, nil
}
