package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/record/audit"
)

// Decided is what became of a decision about a held run.
type Decided struct {
	// Code is why it does not count; "" where it does.
	Code fault.Code
	// Closed: the approval waits for no more decisions.
	Closed bool
}

// Decide counts a proposed decision, once however often it is called. The run's workflow
// calls it for one decision after the other; what it finds in the rows decides, not
// what the one who proposed it saw.
func (s *Service) Decide(ctx context.Context, ref Ref, decision uuid.UUID) (Decided, error) {
	edited, err := s.readEdit(ctx, ref, decision)
	if err == nil {
		var out Decided
		var done *Run
		failpoint.Hit("before_count")
		err = s.DB.InTenant(ctx, ref.TenantID, func(tx pgx.Tx) error {
			d, err := s.openDecision(ctx, tx, ref, decision)
			if err != nil {
				return err
			}
			d.edited = edited
			out, done, err = d.settle(ctx, tx)
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
	case isMissing(err), isNotOurs(err):
		// The proposal was withdrawn, or the run moved on: nobody is asked any more.
		return Decided{Code: fault.CodeApprovalNotPending}, nil
	case f != nil && f.Code != fault.CodeServiceUnavailable:
		return Decided{Code: f.Code}, nil
	}
	return Decided{}, fmt.Errorf("run: decide: %w", err)
}

// editedCall is the call as an approver would have it, judged and built.
type editedCall struct {
	next    prepared
	preview json.RawMessage
}

// readEdit prepares what a decision would put in the place of the run's arguments; nil
// where it edits none. It is done before the transaction, which must not wait for
// another connection.
func (s *Service) readEdit(ctx context.Context, ref Ref, decision uuid.UUID) (*editedCall, error) {
	d, err := dbsqlc.New().GetDecision(ctx, s.DB.Tenant(ref.TenantID), dbsqlc.GetDecisionParams{TenantID: ref.TenantID, ID: decision})
	if err != nil || d.EditedArgs == nil || d.CountedAt != nil {
		return nil, err
	}
	r, err := s.get(ctx, ref.TenantID, ref.ID)
	if err != nil {
		return nil, err
	}
	r.EditedArgs = json.RawMessage(*d.EditedArgs)
	t, err := s.Targets.Target(ctx, r.TenantID, r.Verb)
	if err != nil {
		return nil, err
	}
	e := &editedCall{next: prepared{run: r, target: t, editedFrom: &editedFrom{approvalID: d.ApprovalID, by: *d.UserID}}}
	if err := e.next.mayReplace(); err != nil {
		return nil, err
	}
	call, err := t.Prepare(ctx, r.EditedArgs)
	if err != nil {
		return nil, err
	}
	e.preview = call.Preview(r.EditedArgs)
	return e, nil
}

// mayReplace judges the edited call and holds its arguments against the policies, the schema and the connection.
func (p *prepared) mayReplace() error {
	p.judge()
	if p.verdict.Decision == governance.Block {
		f := fault.New(fault.CodeGovernanceBlocked, "The edited call is blocked: "+p.verdict.Reason)
		f.Decision = string(governance.Block)
		return f
	}
	if details := p.target.Check(p.run.EditedArgs); len(details) > 0 {
		f := fault.New(fault.CodeInvalidArgs, "")
		for _, d := range details {
			d.Path = "/edited_" + strings.TrimPrefix(d.Path, "/")
			f.Details = append(f.Details, d)
		}
		return f
	}
	if f := p.target.Connected(); f != nil {
		return f
	}
	return nil
}

// CheckEdit holds arguments that an approver would put in the place of a run's against
// the verb's schema and the policies. The refusal says what is wrong.
func (s *Service) CheckEdit(ctx context.Context, tenant, runID uuid.UUID, args json.RawMessage) error {
	r, err := s.get(ctx, tenant, runID)
	if err != nil {
		return err
	}
	t, err := s.Targets.Target(ctx, tenant, r.Verb)
	if err != nil {
		return err
	}
	r.EditedArgs = args
	p := prepared{run: r, target: t}
	return p.mayReplace()
}

// deciding is one decision on its way into the rows.
type deciding struct {
	s     *Service
	p     prepared
	h     held
	d     dbsqlc.ApprovalDecision
	voter governance.Voter
	known bool // the voter is an active user
	// edited is nil where the decision edits nothing.
	edited *editedCall
}

func (s *Service) openDecision(ctx context.Context, tx pgx.Tx, ref Ref, id uuid.UUID) (*deciding, error) {
	q := dbsqlc.New()
	d := &deciding{s: s}
	var err error
	if d.d, err = q.GetDecision(ctx, tx, dbsqlc.GetDecisionParams{TenantID: ref.TenantID, ID: id}); err != nil {
		return nil, err
	}
	row, err := q.LockRun(ctx, tx, dbsqlc.LockRunParams{TenantID: ref.TenantID, ID: ref.ID})
	if err != nil {
		return nil, err
	}
	d.p.run = fromRow(row)
	if d.h.row, err = q.LockApproval(ctx, tx, dbsqlc.LockApprovalParams{TenantID: ref.TenantID, ID: d.d.ApprovalID}); err != nil {
		return nil, err
	}
	if d.d.UserID != nil {
		role, err := q.RoleOf(ctx, tx, dbsqlc.RoleOfParams{TenantID: ref.TenantID, ID: *d.d.UserID})
		d.known = err == nil
		if err != nil && !isMissing(err) {
			return nil, err
		}
		d.voter = governance.Voter{UserID: *d.d.UserID, Role: role, Self: isSelf(d.h.row, *d.d.UserID)}
	}
	votes, err := q.Votes(ctx, tx, dbsqlc.VotesParams{TenantID: ref.TenantID, ApprovalID: d.h.row.ID})
	if err != nil {
		return nil, err
	}
	d.h.votes = voters(votes, d.h.row)
	return d, d.h.parse()
}

// settle applies the decision. The run is returned where it ended.
func (d *deciding) settle(ctx context.Context, tx pgx.Tx) (Decided, *Run, error) {
	if d.d.CountedAt != nil {
		// Counted before a crash.
		return Decided{Closed: d.h.row.Status != approvalPending}, nil, nil
	}
	if code := d.refusal(); code != "" {
		return Decided{Code: code, Closed: d.h.row.Status != approvalPending}, nil, nil
	}
	n, err := dbsqlc.New().CountDecision(ctx, tx, dbsqlc.CountDecisionParams{TenantID: d.d.TenantID, ID: d.d.ID})
	if err != nil || n == 0 {
		return Decided{Code: fault.CodeApprovalNotPending}, nil, err
	}
	failpoint.Hit("in_count")
	switch {
	case d.d.Decision == "reject":
		done, err := d.reject(ctx, tx)
		return Decided{Closed: true}, done, err
	case d.edited != nil:
		return d.edit(ctx, tx)
	default:
		return d.approve(ctx, tx)
	}
}

// refusal is why the decision does not count; "" where it does.
func (d *deciding) refusal() fault.Code {
	a := d.h.row
	switch {
	case a.Status != approvalPending || !d.s.Now().Before(*a.ExpiresAt):
		return fault.CodeApprovalNotPending
	case d.p.run.ApprovalID == nil || *d.p.run.ApprovalID != a.ID:
		return fault.CodeApprovalNotPending
	case d.d.UserID == nil:
		return "" // somebody at Temporal; the database lets him only reject
	case !d.known || !governance.MayDecide(d.h.reqs, d.voter, d.h.escalated()):
		return fault.CodeApproverNotEligible
	}
	for _, v := range d.h.votes {
		if v.UserID == d.voter.UserID && d.d.Decision == "approve" {
			return fault.CodeConflict
		}
	}
	return ""
}

func (d *deciding) record(action audit.Action) audit.Record {
	rec := d.p.record(action)
	rec.ActorType, rec.ActorID, rec.RequestID, rec.SourceAddr = actor.Operator, "", d.d.RequestID, d.d.SourceAddr
	if d.d.UserID != nil {
		rec.ActorType, rec.ActorID = actor.User, d.d.UserID.String()
	}
	rec.SubjectType, rec.SubjectID = audit.SubjectApproval, d.h.row.ID
	masked := json.RawMessage(d.h.row.Args)
	rec.Input = masked
	return rec
}

func (d *deciding) reject(ctx context.Context, tx pgx.Tx) (*Run, error) {
	r := d.p.run
	q := dbsqlc.New()
	message := "An approver rejected the call. Nothing was sent; the id may be used again."
	if d.d.Reason != "" {
		message = "An approver rejected the call: " + d.d.Reason + " (Nothing was sent; the id may be used again.)"
	}
	rows, err := q.CloseHeldRun(ctx, tx, dbsqlc.CloseHeldRunParams{
		State: string(StateRejected), ErrorCode: string(fault.CodeGovernanceBlocked), ErrorMessage: message, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt,
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errNotOurs
	}
	if err := d.close(ctx, tx, approvalRejected, d.d.Reason); err != nil {
		return nil, err
	}
	rec := d.record(audit.ApprovalRejected)
	rec.Outcome = approvalRejected
	rec.Details = mustJSON(map[string]string{"approval_id": d.h.row.ID, "reason": d.d.Reason})
	done := fromRow(rows[0])
	return &done, audit.Append(ctx, tx, rec)
}

func (d *deciding) close(ctx context.Context, tx pgx.Tx, status, reason string) error {
	n, err := dbsqlc.New().CloseApproval(ctx, tx, dbsqlc.CloseApprovalParams{
		Status: status, ClosedReason: reason, DecidedBy: d.d.UserID, TenantID: d.d.TenantID, ID: d.h.row.ID,
	})
	if err == nil && n == 0 {
		err = errNotOurs
	}
	return err
}

// approve counts one approval more; with the last that is needed the run goes on.
func (d *deciding) approve(ctx context.Context, tx pgx.Tx) (Decided, *Run, error) {
	d.h.votes = append(d.h.votes, d.voter)
	tally, enough := governance.Count(d.h.reqs, d.h.votes, d.h.escalated())
	rec := d.record(audit.ApprovalVoted)
	rec.Details = mustJSON(map[string]any{"approval_id": d.h.row.ID, "reason": d.d.Reason, "have": tally.Have, "need": tally.Need})
	if enough {
		rec.Action, rec.Outcome = audit.ApprovalApproved, approvalApproved
		if err := d.release(ctx, tx); err != nil {
			return Decided{}, nil, err
		}
	}
	return Decided{Closed: enough}, nil, audit.Append(ctx, tx, rec)
}

// release hands the run to the send step. It has as long from now as a fresh call has.
func (d *deciding) release(ctx context.Context, tx pgx.Tx) error {
	r := d.p.run
	p := dbsqlc.ReleaseRunParams{
		ApprovalID: &d.h.row.ID, GiveUpAt: d.s.Now().Add(d.s.cfg.DefaultWait), TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt,
	}
	if r.EditedArgs != nil {
		text := string(r.EditedArgs)
		p.EditedArgs = &text
	}
	rows, err := dbsqlc.New().ReleaseRun(ctx, tx, p)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errNotOurs
	}
	return d.close(ctx, tx, approvalApproved, "")
}

// edit puts other arguments in the place of those that were asked about: the approval
// is superseded by one of the edited call, judged anew. The edit counts as its author's
// approval where the policies let him approve what he edited.
func (d *deciding) edit(ctx context.Context, tx pgx.Tx) (Decided, *Run, error) {
	next, state := d.edited.next, d.p.run.State
	if err := d.close(ctx, tx, approvalSuperseded, "An approver edited the arguments."); err != nil {
		return Decided{}, nil, err
	}
	if err := next.reclaim(ctx, tx, d.s.Now()); err != nil {
		return Decided{}, nil, err
	}
	a := next.pending(newApprovalID(), state, d.edited.preview, d.s.Now())
	b := &pgx.Batch{}
	next.queueHold(b, a, state)
	queueApproval(b, a)
	rec := d.record(audit.ApprovalEdited)
	rec.Input = next.target.Mask(next.run.EditedArgs)
	rec.Details = mustJSON(map[string]any{
		"approval_id": d.h.row.ID, "superseded_by": a.ID, "reason": d.d.Reason, "original_args": json.RawMessage(d.h.row.Args),
	})
	audit.QueueRaw(b, rec)
	// The workflow waits for what was superseded until it hears of the edit, and a crash
	// may swallow that: the sweeper tells it too.
	b.Queue(dbsqlc.RecheckApproval, a.TenantID, a.ID)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return Decided{}, nil, err
	}
	return d.editorsVote(ctx, tx, a)
}

// reclaim puts the run, with its edited arguments, where it can be held anew.
func (p prepared) reclaim(ctx context.Context, tx pgx.Tx, now time.Time) error {
	text := string(p.run.EditedArgs)
	rows, err := dbsqlc.New().ReleaseRun(ctx, tx, dbsqlc.ReleaseRunParams{
		EditedArgs: &text, GiveUpAt: now, TenantID: p.run.TenantID, ID: p.run.ID, Attempt: p.run.Attempt,
	})
	if err == nil && len(rows) == 0 {
		err = errNotOurs
	}
	return err
}

// editorsVote counts the author of an edit among those who approved it, where he may.
func (d *deciding) editorsVote(ctx context.Context, tx pgx.Tx, a dbsqlc.InsertApprovalParams) (Decided, *Run, error) {
	q := dbsqlc.New()
	row, err := q.LockApproval(ctx, tx, dbsqlc.LockApprovalParams{TenantID: a.TenantID, ID: a.ID})
	if err != nil {
		return Decided{}, nil, err
	}
	next := *d
	next.h = held{row: row}
	if err := next.h.parse(); err != nil {
		return Decided{}, nil, err
	}
	next.voter.Self = true
	if !governance.MayDecide(next.h.reqs, next.voter, false) {
		return Decided{Closed: true}, nil, nil
	}
	next.d.ID, next.d.ApprovalID, next.d.EditedArgs = uuid.Must(uuid.NewV7()), a.ID, nil
	if err := q.ProposeDecision(ctx, tx, dbsqlc.ProposeDecisionParams{
		ID: next.d.ID, TenantID: a.TenantID, ApprovalID: a.ID, UserID: d.d.UserID, Decision: "approve", Reason: d.d.Reason,
		RequestID: d.d.RequestID, SourceAddr: d.d.SourceAddr,
	}); err != nil {
		return Decided{}, nil, err
	}
	edited, err := q.GetRun(ctx, tx, dbsqlc.GetRunParams{TenantID: a.TenantID, ID: a.RunID})
	if err != nil {
		return Decided{}, nil, err
	}
	next.p.run = fromRow(edited)
	if _, err := q.CountDecision(ctx, tx, dbsqlc.CountDecisionParams{TenantID: a.TenantID, ID: next.d.ID}); err != nil {
		return Decided{}, nil, err
	}
	out, done, err := next.approve(ctx, tx)
	out.Closed = true // what was asked about is superseded either way
	return out, done, err
}

// editedFrom is the approval that an edit replaces, and the editor.
type editedFrom struct {
	approvalID string
	by         uuid.UUID
}

// findEditor reads who edited the run's arguments, where somebody did: he stays the
// editor however often the call is asked about anew.
func (s *Service) findEditor(ctx context.Context, p *prepared) error {
	r := p.run
	if r.EditedArgs == nil {
		return nil
	}
	edits, err := dbsqlc.New().LastEdit(ctx, s.DB.Tenant(r.TenantID), dbsqlc.LastEditParams{TenantID: r.TenantID, RunID: r.ID, Attempt: r.Attempt})
	if err != nil {
		return fmt.Errorf("run: the editor: %w", err)
	}
	for _, e := range edits {
		p.editedFrom = &editedFrom{approvalID: *e.EditedFrom, by: *e.EditedBy}
	}
	return nil
}

// RejectByOperator ends a held run for somebody at Temporal, of whom no more is known.
func (s *Service) RejectByOperator(ctx context.Context, ref Ref) error {
	r, err := s.get(ctx, ref.TenantID, ref.ID)
	switch {
	case isMissing(err):
		return nil // the step that follows says so
	case err != nil, r.Attempt != ref.Attempt, r.ApprovalID == nil:
		return err
	}
	id := uuid.Must(uuid.NewV7())
	if err := dbsqlc.New().ProposeDecision(ctx, s.DB.Tenant(ref.TenantID), dbsqlc.ProposeDecisionParams{
		ID: id, TenantID: ref.TenantID, ApprovalID: *r.ApprovalID, Decision: "reject", Reason: "Rejected by an operator in the Temporal UI.",
	}); err != nil {
		return fmt.Errorf("run: reject: %w", err)
	}
	d, err := s.Decide(ctx, ref, id)
	if err == nil && d.Code != "" {
		err = dbsqlc.New().WithdrawDecision(ctx, s.DB.Tenant(ref.TenantID), dbsqlc.WithdrawDecisionParams{TenantID: ref.TenantID, ID: id})
	}
	return err
}
