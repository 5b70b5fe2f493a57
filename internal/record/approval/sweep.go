package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// How the sweeper works, so that ten thousand pending approvals cost the same as a hundred.
// Each pass
//
//   - signals the workflows of approvals that depend on something that changed,
//   - signals those of approvals that should have expired overdueAfter ago,
//   - checks, for unwatchedMost approvals that were not checked for unwatchedAfter, that
//     their workflow still waits.
const (
	overdueAfter   = 5 * time.Second
	unwatchedAfter = 30 * time.Second
	unwatchedMost  = 20
	// sweepMost is the most approvals in each of the first two lists of one pass. The next
	// pass goes on after them, so approvals whose workflows do not move cannot fill the lists.
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
	// Nudge tells a workflow to read its row again. open is false where no such workflow is
	// open.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
	// IsOpen reports whether the workflow is open. found is false where the engine does not
	// know the workflow.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
}

// Owner is the domain that asks for approvals of one type of subject.
type Owner interface {
	// Unattended repairs an approval for which no open workflow waits: it closes the
	// approval, or starts the workflow again. found says that a workflow waited before and
	// has ended.
	Unattended(ctx context.Context, w Waiting, found bool) error
}

// SweeperConfig has the times of a sweeper; zero values take the defaults.
type SweeperConfig struct {
	// Every is how often Once is due; 5 s.
	Every time.Duration
	// ClosedAfter is how long after its end an approval's workflow is told of it. A workflow
	// usually hears of the end by itself; 10 s.
	ClosedAfter time.Duration
}

// SweeperDeps are the collaborators; all are required.
type SweeperDeps struct {
	DB        *db.Pool
	Workflows Workflows
	Log       *slog.Logger
	Now       func() time.Time
}

// Sweeper tells waiting workflows of changes, and finds approvals that no workflow waits
// for.
type Sweeper struct {
	cfg    SweeperConfig
	d      SweeperDeps
	owners map[SubjectType]Owner

	// mu guards where the next pass goes on; both start over at the end of their list.
	mu      sync.Mutex
	changed string // after this id
	overdue overdueAt
}

// overdueAt is a place in the list of overdue approvals.
type overdueAt struct {
	at time.Time
	id string
}

// NewSweeper returns the sweeper. It returns an error where a collaborator is missing.
func NewSweeper(cfg SweeperConfig, d SweeperDeps) (*Sweeper, error) {
	if d.DB == nil || d.Workflows == nil || d.Log == nil || d.Now == nil {
		return nil, errors.New("approval: the sweeper requires database, workflows, log and clock")
	}
	if cfg.Every == 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.ClosedAfter == 0 {
		cfg.ClosedAfter = 10 * time.Second
	}
	return &Sweeper{cfg: cfg, d: d, owners: map[SubjectType]Owner{}}, nil
}

// Own names the domain that owns a type of subject. It is called before the first pass.
func (s *Sweeper) Own(subjects SubjectType, owner Owner) { s.owners[subjects] = owner }

// Every is how often Once is due.
func (s *Sweeper) Every() time.Duration { return s.cfg.Every }

// Once makes one pass over the approvals of all tenants. Any number of processes may do so
// at once. An approval that cannot be handled is logged; the error is a failure to read.
func (s *Sweeper) Once(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	closedBefore := s.d.Now().Add(-s.cfg.ClosedAfter)
	q, tx := dbsqlc.New(), s.d.DB.Presenting(db.SettingSweep, "on")
	changed, err := q.ApprovalsToRecheck(ctx, tx, dbsqlc.ApprovalsToRecheckParams{ClosedBefore: &closedBefore, AfterID: s.changed, Most: sweepMost})
	if err != nil {
		return fmt.Errorf("approval: sweep: %w", err)
	}
	s.changed = ""
	if len(changed) == sweepMost {
		s.changed = changed[sweepMost-1].ID
	}
	for _, row := range changed {
		s.lookAfter(ctx, waiting(row), s.Tell)
	}
	before := s.d.Now().Add(-overdueAfter)
	overdue, err := q.ApprovalsOverdue(ctx, tx, dbsqlc.ApprovalsOverdueParams{Before: &before, AfterAt: s.overdue.at, AfterID: s.overdue.id, Most: sweepMost})
	if err != nil {
		return fmt.Errorf("approval: sweep: %w", err)
	}
	s.overdue = overdueAt{}
	if len(overdue) == sweepMost {
		last := overdue[sweepMost-1]
		s.overdue = overdueAt{at: *last.ExpiresAt, id: last.ID}
	}
	for _, row := range overdue {
		s.lookAfter(ctx, Waiting{
			TenantID: row.TenantID, ID: row.ID, Type: SubjectType(row.SubjectType), SubjectID: row.SubjectID, RunID: row.RunID,
			WorkflowID: row.WorkflowID, seen: row.Seen,
		}, s.Tell)
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

// Tell tells the approval's workflow to look again, and removes the mark. A mark that was
// made after the sweeper read the approval stays. So does the mark of an approval that the
// sweeper did not read.
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

// nudged tells the workflow to look again. It reports whether the workflow is open, and
// otherwise whether the engine knows one. The second attempt reaches a workflow that starts
// at this moment.
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

// check asks whether the approval's workflow is still open. Where no workflow is meant to
// wait, the owner is asked only when the approval is overdue or marked.
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

// watched records that the approval was checked, also where the check failed: an approval
// whose check always fails must not stop the check of others.
func (s *Sweeper) watched(ctx context.Context, w Waiting) error {
	return dbsqlc.New().ApprovalWatched(ctx, s.d.DB.Tenant(w.TenantID), dbsqlc.ApprovalWatchedParams{TenantID: w.TenantID, ID: w.ID})
}

func (s *Sweeper) unattended(ctx context.Context, w Waiting, found bool) error {
	owner, known := s.owners[w.Type]
	if !known {
		return fmt.Errorf("approval: no domain owns subjects of type %q", w.Type)
	}
	return owner.Unattended(ctx, w, found)
}
