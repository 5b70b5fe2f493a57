// Package changing lists what a dry run of a goal would change, and has those changes applied that
// people approve. Each change is a governed run that was intercepted, with an approval of its own; the
// package only puts them in order. The API calls it. It never sends a call itself.
package changing

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/maps/execution"
)

// Goals has the calls of goals.
type Goals interface {
	Answers(ctx context.Context, t conversation.Turn) ([]conversation.Asked, error)
}

// Runs reads the runs that were intercepted.
type Runs interface {
	DryRuns(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID, bare bool) ([]run.DryRun, error)
}

// Approvals decides about one run.
type Approvals interface {
	Decide(ctx context.Context, who actor.Actor, id string, in desk.Input) (desk.Detailed, error)
}

// Deps are the collaborators; all are required but Now.
type Deps struct {
	Goals     Goals
	Runs      Runs
	Approvals Approvals
	Now       func() time.Time
}

// Service lists and decides about the changes of goals.
type Service struct{ d Deps }

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.Goals == nil || d.Runs == nil || d.Approvals == nil {
		return nil, errors.New("changing: goals, runs and approvals are required")
	}
	d.Now = db.Clock(d.Now)
	return &Service{d}, nil
}

// Change is a write that a dry run of a goal has not made.
type Change struct {
	run.DryRun
	// Number is its place in the order of the changes, from 1.
	Number int32
	Status execution.ChangeStatus
}

// List is a page of the changes of a dry run.
type List struct {
	// Status is "" where there are none.
	Status  execution.SetStatus
	Changes []Change
	More    bool
}

// A page ends after pageBytes of arguments. Those of chunk changes are read at a time.
const (
	pageBytes = 4 << 20
	chunk     = 20
)

// List returns a page of the changes of a goal in their order, after the one with the number. There are
// none of a goal that is no dry run.
func (s *Service) List(ctx context.Context, t conversation.Turn, after int32, limit int) (out List, err error) {
	out.Changes = []Change{}
	all, err := s.all(ctx, t)
	if err != nil || len(all) == 0 {
		return out, err
	}
	out.Status = statusOf(all)
	rest := all[min(int(after), len(all)):]
	out.More = len(rest) > limit
	bytes := 0
	for part := range slices.Chunk(rest[:min(limit, len(rest))], chunk) {
		if bytes > pageBytes {
			out.More = true
			break
		}
		ids := make([]uuid.UUID, len(part))
		for i, c := range part {
			ids[i] = c.ID
		}
		full, err := s.d.Runs.DryRuns(ctx, t.TenantID, ids, false)
		if err != nil {
			return out, err
		}
		for _, c := range part {
			c.Args = json.RawMessage("{}")
			if i := slices.IndexFunc(full, func(r run.DryRun) bool { return r.ID == c.ID }); i >= 0 {
				c.Args = full[i].Args
			}
			bytes += len(c.Args)
			out.Changes = append(out.Changes, c)
		}
	}
	return out, nil
}

// all returns all changes of a goal without their arguments.
func (s *Service) all(ctx context.Context, t conversation.Turn) ([]Change, error) {
	if !t.DryRun() {
		return nil, nil
	}
	answers, err := s.d.Goals.Answers(ctx, t)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for _, a := range answers {
		for _, r := range a.Runs {
			if id, err := uuid.Parse(strings.TrimPrefix(r.ExecutionID, "exec_")); err == nil {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.d.Runs.DryRuns(ctx, t.TenantID, ids, true)
	if err != nil {
		return nil, err
	}
	list := make([]Change, len(found))
	for i, r := range found {
		list[i] = Change{DryRun: r, Number: int32(i + 1), Status: changeStatus(r)}
	}
	return list, nil
}

// changeStatus returns how far a change is, by its run and by the approval of that.
func changeStatus(r run.DryRun) execution.ChangeStatus {
	switch r.State {
	case run.StateExecuted:
		return execution.ChangeApplied
	case run.StateIntercepted:
	case run.StateClaimed, run.StateSending, run.StatePending:
		return execution.ChangeApplying
	default:
		return execution.ChangeFailed
	}
	switch r.Approval {
	case governance.ApprovalPending:
		return execution.ChangeProposed
	case governance.ApprovalApproved:
		return execution.ChangeApproved
	case governance.ApprovalSuperseded:
		return execution.ChangeDrifted
	case governance.ApprovalRejected:
		return execution.ChangeRejected
	default:
		return execution.ChangeNotApplied
	}
}

// statusOf returns how far the changes are as a whole.
func statusOf(list []Change) execution.SetStatus {
	has := map[execution.ChangeStatus]bool{}
	for _, c := range list {
		has[c.Status] = true
	}
	switch {
	case has[execution.ChangeApplying], has[execution.ChangeApproved]:
		return execution.SetApplying
	case has[execution.ChangeFailed], has[execution.ChangeDrifted]:
		return execution.SetStopped
	case has[execution.ChangeProposed]:
		return execution.SetProposed
	case has[execution.ChangeApplied]:
		return execution.SetApplied
	case has[execution.ChangeRejected]:
		return execution.SetRejected
	default:
		return execution.SetExpired
	}
}
