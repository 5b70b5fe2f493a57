package run

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

// Decide counts a proposed decision. Repeated calls count it once. The run's workflow calls
// it for one decision after the other; the desk calls it where no workflow runs yet. The
// rows as they are now decide, not what the approver saw. The code in the result says why
// a decision does not count. An error means that the call should be repeated.
func (s *Service) Decide(ctx context.Context, ref flow.RunRef, decision uuid.UUID) (flow.Decided, error) {
	edited, err := s.readEdit(ctx, ref, decision)
	var key *datakey.Key
	if err == nil {
		// It is read before the transaction, which must not wait for another connection.
		key, err = s.d.Keys.Key(ctx, ref.TenantID)
	}
	if err == nil {
		var out flow.Decided
		var done *Run
		failpoint.Hit("before_count")
		err = s.d.DB.InTenant(ctx, ref.TenantID, func(tx pgx.Tx) error {
			d, err := s.open(ctx, tx, key, ref, decision)
			if err != nil {
				return err
			}
			d.edited = edited
			out, done, err = d.count(ctx, tx)
			return err
		})
		if err == nil {
			failpoint.Hit("after_count")
			if done != nil {
				s.ended(*done)
			}
			return out, nil
		}
	}
	f := fault.As(err)
	switch {
	case isMissing(err), db.IsNotChanged(err):
		// The proposal was withdrawn, or the run has moved on: nothing waits for the decision.
		return flow.Decided{Code: fault.CodeApprovalNotPending}, nil
	case f != nil && f.Code != fault.CodeServiceUnavailable:
		return flow.Decided{Code: f.Code}, nil
	}
	return flow.Decided{}, fmt.Errorf("run: decide: %w", err)
}

// Count implements desk.Subjects: it counts a decision about a run whose workflow was not
// started, and starts the workflow.
func (s *Service) Count(ctx context.Context, tenant uuid.UUID, subjectID string, decision uuid.UUID) (flow.Decided, error) {
	r, err := s.ofSubject(ctx, tenant, subjectID)
	if err != nil {
		return flow.Decided{}, err
	}
	out, err := s.Decide(ctx, r.ref(), decision)
	if err != nil || out.Code != "" || r.WorkflowID != r.ownWorkflow() {
		return out, err
	}
	// The row has the decision. The sweeper starts the workflow where this fails.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := s.start(ctx, r); err != nil {
		s.d.Log.WarnContext(ctx, "workflow not started", "run_id", r.ID, "error", err)
	}
	return out, nil
}

// deciding is a decision about a run while it is counted.
type deciding struct {
	*approval.Counting
	s *Service
	p prepared
	// edited is nil where the decision edits nothing.
	edited *editedCall
}

func (s *Service) open(ctx context.Context, tx pgx.Tx, key *datakey.Key, ref flow.RunRef, decision uuid.UUID) (*deciding, error) {
	row, err := s.q.LockRun(ctx, tx, dbsqlc.LockRunParams{TenantID: ref.TenantID, ID: ref.RunID})
	if err != nil {
		return nil, err
	}
	r, err := opened(key, row)
	if err != nil {
		return nil, err
	}
	c, err := approval.Open(ctx, tx, ref.TenantID, decision)
	if err != nil {
		return nil, err
	}
	return &deciding{Counting: c, s: s, p: prepared{run: r}}, nil
}

// count applies the decision. It returns the run where the decision ended it, otherwise nil.
func (d *deciding) count(ctx context.Context, tx pgx.Tx) (flow.Decided, *Run, error) {
	closed := d.Asked.Status != governance.ApprovalPending
	if d.Decision.Counted {
		// It was counted before a crash.
		return flow.Decided{Closed: closed}, nil, nil
	}
	code := d.Refusal(d.s.d.Now())
	if current := d.p.run.ApprovalID; code == "" && (current == nil || *current != d.Asked.ID) {
		code = fault.CodeApprovalNotPending
	}
	if code != "" {
		return flow.Decided{Code: code, Closed: closed}, nil, nil
	}
	taken, err := d.Take(ctx, tx)
	if err != nil || !taken {
		return flow.Decided{Code: fault.CodeApprovalNotPending}, nil, err
	}
	failpoint.Hit("in_count")
	switch {
	case !d.Decision.Approve:
		done, err := d.reject(ctx, tx)
		return flow.Decided{Closed: true}, done, err
	case d.edited != nil:
		return d.edit(ctx, tx)
	default:
		closed, err := d.approve(ctx, tx)
		return flow.Decided{Closed: closed}, nil, err
	}
}

// note writes the record of what the approver did.
func (d *deciding) note(ctx context.Context, tx pgx.Tx, action audit.Action, outcome governance.ApprovalStatus, details map[string]any) error {
	return audit.Append(ctx, tx, d.record(action, outcome, details))
}

func (d *deciding) record(action audit.Action, outcome governance.ApprovalStatus, details map[string]any) audit.Record {
	rec := d.p.approvalRecord(action, d.Asked.ID, string(outcome), details)
	by := d.Decision.By
	rec.ActorType, rec.ActorID, rec.RequestID, rec.SourceAddr = by.Kind, by.IDText(), by.RequestID, by.SourceAddr
	rec.Input = d.Asked.Args
	return rec
}

func (d *deciding) reject(ctx context.Context, tx pgx.Tx) (*Run, error) {
	reason := d.Decision.Reason
	// The row has the reason alone; Run.Fault makes the message of it.
	rows, err := d.s.q.CloseHeldRun(ctx, tx, closeParams(d.p.run, StateRejected, fault.CodeGovernanceBlocked, reason))
	if err != nil {
		return nil, err
	}
	done, found, err := oneOf(d.p.run.key, rows)
	if err == nil && !found {
		err = db.ErrNotChanged
	}
	if err != nil {
		return nil, err
	}
	// After a crash here the workflow would not hear of the decision: the sweeper tells it too.
	if err := d.close(ctx, tx, approval.Closing{Status: governance.ApprovalRejected, Reason: reason, Tell: true}); err != nil {
		return nil, err
	}
	return &done, d.note(ctx, tx, audit.ApprovalRejected, governance.ApprovalRejected, map[string]any{"reason": reason})
}

func (d *deciding) close(ctx context.Context, tx pgx.Tx, c approval.Closing) error {
	c.By = d.Decision.By.UserID()
	return approval.CloseIn(ctx, tx, d.p.run.TenantID, d.Asked.ID, c)
}

// approve does what follows from an approval that was counted. With the last one that is
// needed the run continues, and closed is true.
func (d *deciding) approve(ctx context.Context, tx pgx.Tx) (closed bool, err error) {
	tally, enough := d.Asked.Tally()
	details := map[string]any{"reason": d.Decision.Reason, "have": tally.Have, "need": tally.Need}
	if !enough {
		return false, d.note(ctx, tx, audit.ApprovalVoted, "", details)
	}
	if err := d.release(ctx, tx); err != nil {
		return false, err
	}
	return true, d.note(ctx, tx, audit.ApprovalApproved, governance.ApprovalApproved, details)
}

// release hands the run to the send step. The run has as much time from now as a fresh call,
// unless its caller has set the time.
func (d *deciding) release(ctx context.Context, tx pgx.Tx) error {
	rows, err := d.s.q.ReleaseRun(ctx, tx, d.p.releaseParams(&d.Asked.ID, d.s.d.Now()))
	if err == nil && len(rows) == 0 {
		err = db.ErrNotChanged
	}
	if err != nil {
		return err
	}
	// An ActionRun counts its decisions itself; another workflow must be told.
	tell := !flow.IsActionRun(d.p.run.WorkflowID)
	return d.close(ctx, tx, approval.Closing{Status: governance.ApprovalApproved, Tell: tell})
}

// RejectByOperator ends a held run for an operator who sent a signal in the Temporal UI. The
// signal does not say which operator. Where the run no longer waits it changes nothing.
func (s *Service) RejectByOperator(ctx context.Context, ref flow.RunRef) error {
	r, err := s.get(ctx, ref.TenantID, ref.RunID)
	switch {
	case isMissing(err):
		return nil // the step that follows says so
	case err != nil, r.Attempt != ref.Attempt, r.ApprovalID == nil:
		return err
	}
	p := approval.Proposal{
		ID: uuid.Must(uuid.NewV7()), ApprovalID: *r.ApprovalID, By: actor.OperatorAt(ref.TenantID, ""),
		Reason: "Rejected by an operator in the Temporal UI.",
	}
	tx := s.d.DB.Tenant(ref.TenantID)
	if err := approval.Propose(ctx, tx, p); err != nil {
		return err
	}
	d, err := s.Decide(ctx, ref, p.ID)
	if err == nil && d.Code != "" {
		err = approval.Withdraw(ctx, tx, ref.TenantID, p.ID)
	}
	return err
}
