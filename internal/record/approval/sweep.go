package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// How the sweeper looks after approvals, so that ten thousand pending ones cost no more
// than a hundred. Each pass
//
//   - signals the workflows of approvals that depend on something that changed,
//   - signals those of approvals that should have expired overdueAfter ago,
//   - checks, for unwatchedMost approvals that were not checked for unwatchedAfter, that
//     their workflow still waits.
const (
	overdueAfter   = 5 * time.Second
	unwatchedAfter = 30 * time.Second
	unwatchedMost  = 20
	// sweepMost bounds each of the first two lists of one pass.
	sweepMost = 200
)

// Waiting is a pending approval, or one whose workflow may not know of its end.
type Waiting struct {
	TenantID   uuid.UUID
	ID         string
	Type       SubjectType
	SubjectID  string
	RunID      *uuid.UUID
	WorkflowID string
	// seen is the version of the row.
	seen string
}

// Workflows reaches the workflows that wait for approvals.
type Workflows interface {
	// Nudge has a workflow look at its row again; open is false where none is open.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
	// IsOpen reports whether the workflow is open; found is false where the engine knows
	// none.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
}

// Owner is the domain that asks for approvals of one type of subject.
type Owner interface {
	// Unattended looks after an approval for which no open workflow waits: it closes the
	// approval, or starts the workflow again. found says that a workflow waited once and
	// has ended.
	Unattended(ctx context.Context, w Waiting, found bool) error
}

// SweeperDeps are the collaborators; all are required.
type SweeperDeps struct {
	DB        *db.Pool
	Workflows Workflows
	// Owners has the domain of every type of subject.
	Owners map[SubjectType]Owner
	Log    *slog.Logger
	Now    func() time.Time
}

// Sweeper has waiting workflows notice what has changed, and finds approvals that nothing
// waits for.
type Sweeper struct{ d SweeperDeps }

// NewSweeper checks the collaborators.
func NewSweeper(d SweeperDeps) (*Sweeper, error) {
	if d.DB == nil || d.Workflows == nil || d.Owners == nil || d.Log == nil || d.Now == nil {
		return nil, errors.New("approval: the sweeper requires database, workflows, owners, log and clock")
	}
	return &Sweeper{d: d}, nil
}

// Once looks after the approvals of all tenants once. closedBefore is the time before
// which an approval must have been closed for its workflow to be told again.
func (s *Sweeper) Once(ctx context.Context, closedBefore time.Time) error {
	q, tx := dbsqlc.New(), s.d.DB.Presenting(db.SettingSweep, "on")
	changed, err := q.ApprovalsToRecheck(ctx, tx, dbsqlc.ApprovalsToRecheckParams{ClosedBefore: &closedBefore, Most: sweepMost})
	if err != nil {
		return fmt.Errorf("approval: sweep: %w", err)
	}
	for _, row := range changed {
		s.lookAfter(ctx, waiting(row), s.Tell)
	}
	before := s.d.Now().Add(-overdueAfter)
	overdue, err := q.ApprovalsOverdue(ctx, tx, dbsqlc.ApprovalsOverdueParams{Before: &before, Most: sweepMost})
	if err != nil {
		return fmt.Errorf("approval: sweep: %w", err)
	}
	for _, row := range overdue {
		s.lookAfter(ctx, waiting(dbsqlc.ApprovalsToRecheckRow(row)), s.Tell)
	}
	unwatched, err := q.ApprovalsUnwatched(ctx, tx, dbsqlc.ApprovalsUnwatchedParams{Before: s.d.Now().Add(-unwatchedAfter), Most: unwatchedMost})
	if err != nil {
		return fmt.Errorf("approval: sweep: %w", err)
	}
	for _, row := range unwatched {
		w := waiting(dbsqlc.ApprovalsToRecheckRow(row))
		s.lookAfter(ctx, w, s.check)
		s.lookAfter(ctx, w, s.watched)
	}
	return nil
}

func waiting(r dbsqlc.ApprovalsToRecheckRow) Waiting {
	return Waiting{
		TenantID: r.TenantID, ID: r.ID, Type: SubjectType(r.SubjectType), SubjectID: r.SubjectID, RunID: r.RunID,
		WorkflowID: r.WorkflowID, seen: r.Seen,
	}
}

func (s *Sweeper) lookAfter(ctx context.Context, w Waiting, do func(context.Context, Waiting) error) {
	if err := do(ctx, w); err != nil && ctx.Err() == nil {
		s.d.Log.WarnContext(ctx, "approval not looked after", "approval_id", w.ID, "error", err)
	}
}

// Tell has the approval's workflow look again. A mark that was made since the approval was
// read stays, and so does the mark of one that was not read by the sweeper.
func (s *Sweeper) Tell(ctx context.Context, w Waiting) error {
	attended, found, err := s.nudged(ctx, w)
	if err == nil && !attended {
		err = s.unattended(ctx, w, found)
	}
	if err != nil {
		return err
	}
	return dbsqlc.New().ApprovalRechecked(ctx, s.d.DB.Tenant(w.TenantID), dbsqlc.ApprovalRecheckedParams{TenantID: w.TenantID, ID: w.ID, Seen: w.seen})
}

// nudged has the workflow look again, and reports whether it is open, else whether the
// engine knows one. A workflow that starts at this moment is nudged the second time.
func (s *Sweeper) nudged(ctx context.Context, w Waiting) (open, found bool, err error) {
	if w.WorkflowID == "" {
		return false, false, nil
	}
	for range 2 {
		if open, err = s.d.Workflows.Nudge(ctx, w.WorkflowID); err != nil || open {
			return open, open, err
		}
		if open, found, err = s.d.Workflows.IsOpen(ctx, w.WorkflowID); err != nil || !open {
			return false, found, err
		}
	}
	return open, found, nil
}

// check looks whether the approval's workflow still waits. Where none is meant to wait, the
// owner is asked only when the approval is overdue or marked.
func (s *Sweeper) check(ctx context.Context, w Waiting) error {
	if w.WorkflowID == "" {
		return nil
	}
	open, found, err := s.d.Workflows.IsOpen(ctx, w.WorkflowID)
	if err == nil && !open {
		err = s.unattended(ctx, w, found)
	}
	return err
}

// watched notes that the approval was checked, also where that failed: one that always
// fails must not keep the others from their turn.
func (s *Sweeper) watched(ctx context.Context, w Waiting) error {
	return dbsqlc.New().ApprovalWatched(ctx, s.d.DB.Tenant(w.TenantID), dbsqlc.ApprovalWatchedParams{TenantID: w.TenantID, ID: w.ID})
}

func (s *Sweeper) unattended(ctx context.Context, w Waiting, found bool) error {
	owner, known := s.d.Owners[w.Type]
	if !known {
		return fmt.Errorf("approval: no domain owns subjects of type %q", w.Type)
	}
	return owner.Unattended(ctx, w, found)
}
