package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

// editedCall is the call as an approver edited it, judged and built.
type editedCall struct {
	next    prepared
	preview json.RawMessage
}

// SealEdit implements desk.Subjects. The fault says what is wrong with the arguments.
func (s *Service) SealEdit(ctx context.Context, tenant uuid.UUID, subjectID string, args json.RawMessage) (string, error) {
	r, err := s.ofSubject(ctx, tenant, subjectID)
	switch {
	case err != nil:
		return "", err
	case r.Unreadable != nil:
		return "", r.unreadable()
	}
	if trimmed := bytes.TrimSpace(args); len(trimmed) == 0 || trimmed[0] != '{' {
		return "", fault.Invalid("/edited_args", "type", "edited_args is an object.")
	}
	if args, err = s.restored(ctx, r, args); err != nil {
		return "", err
	}
	if _, err = s.judgeEdit(ctx, r, args); err != nil {
		return "", err
	}
	return r.seal(datakey.RunEditedArgs, args), nil
}

// SealResponse implements desk.Subjects. No run has a form.
func (s *Service) SealResponse(context.Context, uuid.UUID, string, json.RawMessage) (string, error) {
	return "", fault.Invalid("/response", "unknown", "A call asks for no response.")
}

// restored returns the edited arguments with those that the approver could not see and left
// out. A placeholder that they sent is INVALID_ARGS.
func (s *Service) restored(ctx context.Context, r Run, args json.RawMessage) (json.RawMessage, error) {
	before := r.Effective()
	shown := s.d.Targets.Mask(ctx, r.TenantID, r.Verb, Texts{Args: before})
	restored, places, err := redact.Restore(before, shown.Args, args)
	if err != nil {
		return nil, fmt.Errorf("run: restore masked arguments: %w", err)
	}
	if len(places) == 0 {
		return restored, nil
	}
	f := fault.New(fault.CodeInvalidArgs, "The edited arguments contain placeholders of masked values.")
	for _, place := range places {
		f.Details = append(f.Details, fault.Detail{Path: "/edited_args" + place, Rule: "placeholder", Message: "leave it out to keep its value, or set it again"})
	}
	return nil, f
}

// ofSubject returns the run that an approval is about.
func (s *Service) ofSubject(ctx context.Context, tenant uuid.UUID, subjectID string) (Run, error) {
	id, err := uuid.Parse(subjectID)
	if err != nil {
		return Run{}, fmt.Errorf("run: subject of an approval: %w", err)
	}
	return s.read(ctx, tenant, id)
}

// readEdit prepares the edit of a decision; nil where the decision edits nothing. It runs
// before the transaction, because a transaction must not wait for another connection.
func (s *Service) readEdit(ctx context.Context, ref flow.RunRef, decision uuid.UUID) (*editedCall, error) {
	d, err := approval.ReadDecision(ctx, s.d.DB.Tenant(ref.TenantID), ref.TenantID, decision)
	if err != nil || d.EditedArgs == "" || d.Counted {
		return nil, err
	}
	r, err := s.get(ctx, ref.TenantID, ref.RunID)
	if err != nil {
		return nil, err
	}
	args, err := r.open(datakey.RunEditedArgs, &d.EditedArgs)
	if err != nil {
		return nil, err
	}
	p, err := s.judgeEdit(ctx, r, args)
	if err != nil {
		return nil, err
	}
	p.edit = &approval.Edit{From: d.ApprovalID, By: d.By.ID}
	call, err := p.target.Prepare(ctx, args)
	if err != nil {
		return nil, err
	}
	return &editedCall{next: p, preview: call.Preview(args)}, nil
}

// judgeEdit judges the run with other arguments. The fault says that the call is blocked,
// that the arguments do not fit the schema, or that the provider is not connected.
func (s *Service) judgeEdit(ctx context.Context, r Run, args json.RawMessage) (prepared, error) {
	t, err := s.d.Targets.Target(ctx, r.TenantID, r.Verb, r.account(), args)
	if err != nil {
		return prepared{}, err
	}
	r.EditedArgs = args
	p := prepared{run: r, target: t, later: true}
	if err := p.judge(ctx); err != nil {
		return prepared{}, err
	}
	if p.verdict.Decision == governance.Block {
		f := fault.New(fault.CodeGovernanceBlocked, "The edited call is blocked: "+p.verdict.Reason)
		f.Decision = string(governance.Block)
		return prepared{}, f
	}
	if details := t.Check(args); len(details) > 0 {
		f := fault.New(fault.CodeInvalidArgs, "")
		for _, d := range details {
			d.Path = "/edited_" + strings.TrimPrefix(d.Path, "/")
			f.Details = append(f.Details, d)
		}
		return prepared{}, f
	}
	if f := t.Connected(); f != nil {
		return prepared{}, f
	}
	return p, nil
}

// edit replaces the arguments that the approval is about. A new approval of the edited call
// supersedes the old one. The edit counts as its author's approval where the policies let
// them approve what they edited.
func (d *deciding) edit(ctx context.Context, tx pgx.Tx, to *editedCall) error {
	edited, state := to.next, d.p.run.State
	// The run may have been handed over since the edit was read; the locked row counts.
	edited.run.WorkflowID, edited.run.Driver = d.p.run.WorkflowID, d.p.run.Driver
	a := edited.asking(approval.NewID(), state, to.preview, d.s.d.Now())
	b := &db.Batch{}
	d.queueClose(b, approval.Closing{Status: governance.ApprovalSuperseded, Reason: "An approver edited the arguments."})
	db.Queue(b, d.s.q.ReleaseRun, edited.releaseParams(nil, d.s.d.Now()))
	d.s.requireChanged(b, edited.run)
	edited.queueHold(b, a, state)
	approval.Ask(b, a)
	rec := d.record(audit.ApprovalEdited, "", map[string]any{
		"superseded_by": a.ID, "reason": d.Decision.Reason, "original_args": d.Asked.Args,
	})
	rec.Input = edited.target.Mask(edited.run.EditedArgs)
	audit.Queue(b, rec)
	d.wrote(b)
	d.emit(b, governance.ApprovalSuperseded, d.Decision.Reason)
	edited.emitRequested(b, a)
	// The workflow waits for the old approval until it hears of the edit. After a crash it
	// would not hear of it: the sweeper tells it too.
	approval.Recheck(b, a.TenantID, a.ID)
	if err := b.SendIn(ctx, tx); err != nil {
		return err
	}
	return d.carryVote(ctx, tx, a.ID)
}

// carryVote counts the edit as an approval of the edited call, where its author may approve
// it.
func (d *deciding) carryVote(ctx context.Context, tx pgx.Tx, approvalID string) error {
	counting, err := d.Carry(ctx, tx, approvalID)
	if err != nil || counting == nil {
		return err
	}
	row, err := d.s.q.GetRun(ctx, tx, dbsqlc.GetRunParams{TenantID: d.p.run.TenantID, ID: d.p.run.ID})
	if err != nil {
		return err
	}
	carried := deciding{Counting: counting, s: d.s, p: prepared{run: opened(d.p.run.key, row)}}
	b := &db.Batch{}
	carried.queueApproval(b)
	return b.SendIn(ctx, tx)
}
