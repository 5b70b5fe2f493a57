package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

// Decide counts a proposed decision. Repeated calls count it once. The run's workflow calls
// it for one decision after the other; the desk calls it where no workflow runs yet. The
// rows as they are now decide, not what the approver saw. The code in the result says why
// a decision does not count. An error means that the call should be repeated.
func (s *Service) Decide(ctx context.Context, ref flow.RunRef, decision uuid.UUID) (flow.Decided, error) {
	// It is read before the transaction, which must not wait for another connection.
	key, err := s.keyOf(ctx, ref.TenantID)
	var out flow.Decided
	var done *Run
	if err == nil {
		out, done, err = s.count(ctx, key, ref, decision)
	}
	if errors.Is(err, errEdits) {
		out, err = s.countEdit(ctx, key, ref, decision)
	}
	if err == nil {
		failpoint.Hit("after_count", ref.RunID)
		if done != nil {
			s.ended(*done)
		}
		return out, nil
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

// errEdits says that a decision edits the arguments, so that more is needed to count it.
var errEdits = errors.New("run: the decision edits the arguments")

// count counts a decision in a transaction of two round trips. It returns the run where the
// decision ended it, otherwise nil.
func (s *Service) count(ctx context.Context, key *datakey.Key, ref flow.RunRef, decision uuid.UUID) (out flow.Decided, done *Run, err error) {
	failpoint.Hit("before_count", ref.RunID)
	read := &db.Batch{}
	row := db.Queue(read, s.q.LockRun, dbsqlc.LockRunParams{TenantID: ref.TenantID, ID: ref.RunID})
	opening := approval.QueueOpen(read, ref.TenantID, decision)
	var closed *db.Answer[[]dbsqlc.Run]
	err = s.d.DB.ReadAndWrite(ctx, ref.TenantID, read, func() (*db.Batch, error) {
		d, err := s.deciding(opening, key, row.Value)
		if err != nil {
			return nil, err
		}
		var counts bool
		if out, counts = d.counts(); !counts {
			return nil, nil //nolint:nilnil // nothing to write is a value here
		}
		if d.Decision.EditedArgs != "" {
			return nil, errEdits
		}
		b := &db.Batch{}
		d.QueueTake(b)
		if !d.Decision.Approve && d.Decision.Reason != "" {
			d.wrote(b) // a Map or a model is told why
		}
		failpoint.Hit("in_count", ref.RunID)
		if d.Decision.Approve {
			out.Closed = d.queueApproval(b)
		} else {
			out.Closed, closed = true, d.queueRejection(b)
		}
		return b, nil
	})
	if err != nil || closed == nil {
		return out, nil, err
	}
	ended, _ := oneOf(key, closed.Value)
	return out, &ended, nil
}

// countEdit counts a decision that edits the arguments. The edited call is judged before the
// transaction, which must not wait for another connection.
func (s *Service) countEdit(ctx context.Context, key *datakey.Key, ref flow.RunRef, decision uuid.UUID) (out flow.Decided, err error) {
	edited, err := s.readEdit(ctx, ref, decision)
	if err != nil {
		return flow.Decided{}, err
	}
	err = s.d.DB.InTenant(ctx, ref.TenantID, func(tx pgx.Tx) error {
		read := &db.Batch{}
		row := db.Queue(read, s.q.LockRun, dbsqlc.LockRunParams{TenantID: ref.TenantID, ID: ref.RunID})
		opening := approval.QueueOpen(read, ref.TenantID, decision)
		if err := read.SendIn(ctx, tx); err != nil {
			return err
		}
		d, err := s.deciding(opening, key, row.Value)
		if err != nil {
			return err
		}
		var counts bool
		if out, counts = d.counts(); !counts {
			return nil
		}
		taken, err := d.Take(ctx, tx)
		if err != nil || !taken {
			out.Code = fault.CodeApprovalNotPending
			return err
		}
		failpoint.Hit("in_count", ref.RunID)
		out.Closed = true
		return d.edit(ctx, tx, edited)
	})
	return out, err
}

// Count implements desk.Subjects: it counts a decision about a run whose workflow was not
// started, and starts the workflow.
func (s *Service) Count(ctx context.Context, tenant uuid.UUID, subjectID string, decision uuid.UUID) (flow.Decided, error) {
	r, err := s.ofSubject(ctx, tenant, subjectID)
	if err != nil {
		return flow.Decided{}, err
	}
	out, err := s.Decide(ctx, r.ref(), decision)
	if err != nil || out.Code != "" || r.Driver != flow.DriverRun {
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
}

func (s *Service) deciding(opening approval.Opening, key *datakey.Key, row dbsqlc.Run) (*deciding, error) {
	c, err := opening.Counting()
	if err != nil {
		return nil, err
	}
	return &deciding{Counting: c, s: s, p: prepared{run: opened(key, row)}}, nil
}

// counts reports whether the decision counts now. Where it does not, the result says why, or
// that it was counted before.
func (d *deciding) counts() (flow.Decided, bool) {
	out := flow.Decided{Closed: d.Asked.Status != governance.ApprovalPending}
	if d.Decision.Counted {
		// It was counted before a crash.
		return out, false
	}
	out.Code = d.Refusal(d.s.d.Now())
	if current := d.p.run.ApprovalID; out.Code == "" && (current == nil || *current != d.Asked.ID) {
		out.Code = fault.CodeApprovalNotPending
	}
	if out.Code == "" && d.Decision.Approve && (d.p.run.Unreadable != nil || d.p.run.key == nil) {
		// It could not be sent: a rejection is all that helps.
		out.Code = fault.CodeExecutionUnreadable
	}
	return out, out.Code == ""
}

// wrote queues that the Map or the agent whose call it is goes on with a text of the approver.
func (d *deciding) wrote(b *db.Batch) {
	approval.Wrote(b, d.p.run.TenantID, db.Text(d.p.run.ParentID), d.Decision.By.UserID())
}

// queueNote queues the record of what the approver did.
func (d *deciding) queueNote(b *db.Batch, action audit.Action, outcome governance.ApprovalStatus, details map[string]any) {
	audit.Queue(b, d.record(action, outcome, details))
}

func (d *deciding) record(action audit.Action, outcome governance.ApprovalStatus, details map[string]any) audit.Record {
	rec := d.p.approvalRecord(action, d.Asked.ID, string(outcome), details)
	by := d.Decision.By
	rec.ActorType, rec.ActorID, rec.RequestID, rec.SourceAddr = by.Kind, by.IDText(), by.RequestID, by.SourceAddr
	rec.Input = d.Asked.Args
	return rec
}

// queueRejection queues the end of the run, which the answer returns.
func (d *deciding) queueRejection(b *db.Batch) *db.Answer[[]dbsqlc.Run] {
	reason := d.Decision.Reason
	// The row has the reason alone; Run.Fault makes the message of it.
	done := db.Queue(b, d.s.q.CloseHeldRun, closeParams(d.p.run, StateRejected, fault.CodeGovernanceBlocked, reason))
	d.s.requireChanged(b, d.p.run)
	// After a crash here the workflow would not hear of the decision: the sweeper tells it too.
	d.queueClose(b, approval.Closing{Status: governance.ApprovalRejected, Reason: reason, Tell: true})
	d.queueNote(b, audit.ApprovalRejected, governance.ApprovalRejected, map[string]any{"reason": reason})
	d.emit(b, governance.ApprovalRejected, reason)
	return done
}

func (d *deciding) queueClose(b *db.Batch, c approval.Closing) {
	c.By = d.Decision.By.UserID()
	approval.Close(b, d.p.run.TenantID, d.Asked.ID, c)
}

// queueApproval queues what follows from an approval that was counted. With the last one that
// is needed the run continues, and closed is true. The run has as much time from now as a fresh
// call, unless its caller has set the time.
func (d *deciding) queueApproval(b *db.Batch) (closed bool) {
	tally, enough := d.Asked.Tally()
	details := map[string]any{"reason": d.Decision.Reason, "have": tally.Have, "need": tally.Need}
	if !enough {
		d.queueNote(b, audit.ApprovalVoted, "", details)
		return false
	}
	db.Queue(b, d.s.q.ReleaseRun, d.p.releaseParams(&d.Asked.ID, d.s.d.Now()))
	d.s.requireChanged(b, d.p.run)
	// An ActionRun counts its decisions itself; another workflow must be told.
	tell := d.p.run.Driver != flow.DriverRun
	d.queueClose(b, approval.Closing{Status: governance.ApprovalApproved, Tell: tell})
	d.queueNote(b, audit.ApprovalApproved, governance.ApprovalApproved, details)
	d.emit(b, governance.ApprovalApproved, d.Decision.Reason)
	return true
}

// RejectByOperator ends a held run for an operator who sent a signal in the Temporal UI. The
// signal does not say which operator. Where the run no longer waits it changes nothing.
func (s *Service) RejectByOperator(ctx context.Context, ref flow.RunRef) error {
	r, err := s.glance(ctx, ref.TenantID, ref.RunID)
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
