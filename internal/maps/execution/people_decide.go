package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// SealEdit implements desk.Subjects: what people decide about can be replaced as a whole, by an object as
// it is one. A masked place that is left out keeps its value.
func (s *people) SealEdit(ctx context.Context, tenant uuid.UUID, subject string, args json.RawMessage) (string, error) {
	if trimmed := bytes.TrimSpace(args); len(trimmed) == 0 || trimmed[0] != '{' {
		return "", fault.Invalid("/edited_args", "type", "edited_args is an object.")
	}
	e, l, err := s.ofSubject(ctx, tenant, subject)
	if err != nil {
		return "", err
	}
	before, err := l.load(stepmachine.Stored{ID: askedValue(subject)})
	if err != nil {
		return "", err
	}
	if len(masked(before)) > mostShown {
		return "", fault.Invalid("/edited_args", "length", "The value is too large to be edited.")
	}
	b := &db.Batch{}
	shown, err := s.views.queueShown(ctx, b, tenant, before)
	if err != nil {
		return "", err
	}
	if err := s.sendBatch(ctx, tenant, b); err != nil {
		return "", fmt.Errorf("execution: what people were shown: %w", err)
	}
	restored, places, err := redact.Restore(before, shown(), args)
	if err != nil {
		return "", fmt.Errorf("execution: restore masked values: %w", err)
	}
	if len(places) > 0 {
		f := fault.New(fault.CodeInvalidArgs, "The edited value contains placeholders of masked values.")
		for _, place := range places {
			f.Details = append(f.Details, fault.Detail{Path: "/edited_args" + place, Rule: "placeholder", Message: "leave it out to keep its value, or set it again"})
		}
		return "", f
	}
	return l.key.Seal(decisionPlace(e.TenantID, subject, datakey.MapEdit), restored), nil
}

// SealResponse implements desk.Subjects.
func (s *people) SealResponse(ctx context.Context, tenant uuid.UUID, subject string, response json.RawMessage) (string, error) {
	_, l, err := s.ofSubject(ctx, tenant, subject)
	if err != nil {
		return "", err
	}
	return l.key.Seal(decisionPlace(tenant, subject, datakey.MapResponse), response), nil
}

func (s *people) ofSubject(ctx context.Context, tenant uuid.UUID, subject string) (e Execution, l *loader, err error) {
	id, err := executionOfSubject(subject)
	if err != nil {
		return e, nil, fmt.Errorf("execution: subject of an approval: %w", err)
	}
	if e, err = s.readExecution(ctx, tenant, id); err != nil {
		return e, nil, err
	}
	l, err = s.newLoader(ctx, e, nil)
	return e, l, err
}

// Count implements desk.Subjects: it counts a decision about a step in the rows. The workflow is
// told by the desk, and otherwise by the sweeper.
func (s *people) Count(ctx context.Context, tenant uuid.UUID, subject string, decision uuid.UUID) (out flow.Decided, err error) {
	e, l, err := s.ofSubject(ctx, tenant, subject)
	if err != nil {
		return out, err
	}
	err = s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		c, err := approval.Open(ctx, tx, tenant, decision)
		if err != nil {
			return err
		}
		d := deciding{Counting: c, s: s, e: e, key: l.key}
		if out, err = d.countDecision(ctx, tx); err != nil || out.Code != "" {
			return err
		}
		failpoint.Hit("in_map_count", e.ID)
		return nil
	})
	switch {
	case db.IsNoRows(err), db.IsNotChanged(err):
		// The decision was withdrawn, or the approval was closed.
		return flow.Decided{Code: fault.CodeApprovalNotPending}, nil
	case err != nil:
		return out, fmt.Errorf("execution: count a decision: %w", err)
	}
	failpoint.Hit("after_map_count", e.ID)
	return out, nil
}

// deciding is a decision about a step while it is counted.
type deciding struct {
	*approval.Counting
	s   *people
	e   Execution
	key *datakey.Key
}

func (d *deciding) countDecision(ctx context.Context, tx pgx.Tx) (out flow.Decided, err error) {
	out.Closed = d.Asked.Status != governance.ApprovalPending
	if d.Decision.Counted {
		return out, nil
	}
	if out.Code = d.Refusal(d.s.d.Now()); out.Code != "" {
		return out, nil
	}
	taken, err := d.Take(ctx, tx)
	if err != nil || !taken {
		out.Code = fault.CodeApprovalNotPending
		return out, err
	}
	b := &db.Batch{}
	if d.Decision.Response != "" || d.Decision.Reason != "" {
		d.noteWriter(b)
	}
	switch {
	case !d.Decision.Approve:
		out.Closed = true
		d.closeApproval(b, governance.ApprovalRejected, audit.ApprovalRejected, map[string]any{"reason": d.Decision.Reason})
	case d.Decision.EditedArgs != "":
		return d.replaceValue(ctx, tx)
	default:
		out.Closed = d.countApproval(b)
	}
	return out, b.SendIn(ctx, tx)
}

// noteWriter queues that what the approver said goes on in the execution: later steps may send it.
func (d *deciding) noteWriter(b *db.Batch) {
	approval.Wrote(b, d.e.TenantID, d.e.ExecutionID, d.Decision.By.UserID())
}

// closeApproval queues the end of the approval by the decision.
func (d *deciding) closeApproval(b *db.Batch, status governance.ApprovalStatus, action audit.Action, details map[string]any) {
	approval.Close(b, d.e.TenantID, d.Asked.ID, approval.Closing{
		Status: status, Reason: closedReason(status, d.Decision.Reason), By: d.Decision.By.UserID(), Tell: status != governance.ApprovalSuperseded,
	})
	outcome := status
	if status == governance.ApprovalSuperseded {
		outcome = ""
	}
	rec := recordOf(d.Decision.By, d.e, action, d.Asked.ID, outcome, details)
	rec.Input = d.Asked.Args
	audit.Queue(b, rec)
	queueDecidedEvent(b, d.key, d.e, event.Decided{
		ApprovalID: d.Asked.ID, Status: string(status), DecidedBy: d.Decision.By.String(), Reason: d.Decision.Reason, Edited: status == governance.ApprovalSuperseded,
	})
}

func closedReason(status governance.ApprovalStatus, reason string) string {
	switch status {
	case governance.ApprovalSuperseded:
		return "An approver edited the value."
	case governance.ApprovalRejected:
		return reason
	default:
		return ""
	}
}

// countApproval queues what follows from an approval that was counted, and reports whether it was the
// last one that is needed.
func (d *deciding) countApproval(b *db.Batch) bool {
	tally, enough := d.Asked.Tally()
	details := map[string]any{"reason": d.Decision.Reason, "have": tally.Have, "need": tally.Need}
	if !enough {
		rec := recordOf(d.Decision.By, d.e, audit.ApprovalVoted, d.Asked.ID, "", details)
		rec.Input = d.Asked.Args
		audit.Queue(b, rec)
		return false
	}
	d.closeApproval(b, governance.ApprovalApproved, audit.ApprovalApproved, details)
	return true
}

// replaceValue replaces what people decide about. Another approval asks about the new value, which its
// author has approved.
func (d *deciding) replaceValue(ctx context.Context, tx pgx.Tx) (out flow.Decided, err error) {
	value, err := d.key.Open(decisionPlace(d.e.TenantID, d.Asked.About.ID, datakey.MapEdit), d.Decision.EditedArgs)
	if err != nil {
		return out, fmt.Errorf("execution: edited value: %w", err)
	}
	a, b := d.Asked, &db.Batch{}
	shown, err := d.s.views.queueShown(ctx, b, d.e.TenantID, value)
	if err != nil {
		return out, err
	}
	if b.Len() > 0 {
		if err := b.SendIn(ctx, tx); err != nil {
			return out, err
		}
	}
	n := approval.New{
		ID: approval.NewID(), Subject: a.About, Kind: a.Kind, Reason: a.Reason, Args: shown(), Form: a.Form, Requester: a.Requester,
		Requirements: a.Requirements, Edited: &approval.Edit{From: a.ID, By: d.Decision.By.ID}, ExpiresAt: a.ExpiresAt,
	}
	b = &db.Batch{}
	d.closeApproval(b, governance.ApprovalSuperseded, audit.ApprovalEdited, map[string]any{"superseded_by": n.ID, "reason": d.Decision.Reason})
	approval.Ask(b, n)
	d.s.queueValue(b, d.key, d.e, askedValue(a.About.ID), stepmachine.Of(value))
	queueRequestedEvent(b, d.key, d.e, n)
	d.noteWriter(b) // after the question: its author may decide about their own edit
	if err := b.SendIn(ctx, tx); err != nil {
		return out, err
	}
	out.Closed = true
	next, err := d.Carry(ctx, tx, n.ID)
	if err != nil || next == nil {
		return out, err
	}
	carried := deciding{Counting: next, s: d.s, e: d.e, key: d.key}
	b = &db.Batch{}
	carried.countApproval(b)
	return out, b.SendIn(ctx, tx)
}
