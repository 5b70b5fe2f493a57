package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/audit"
	"agentruntime/internal/failpoint"
	"agentruntime/internal/fault"
	"agentruntime/internal/governance"
)

// Statuses of an approval record.
const (
	approvalBlocked    = "blocked"
	approvalPending    = "pending"
	approvalApproved   = "approved"
	approvalRejected   = "rejected"
	approvalExpired    = "expired"
	approvalCancelled  = "cancelled"
	approvalSuperseded = "superseded"
)

// Kinds of an approval record: a call that was blocked, one that waits, and the
// request of a dry run.
const (
	kindBlock  = "block"
	kindHold   = "hold"
	kindDryRun = "dry_run"
)

func newApprovalID() string { return "appr_" + uuid.Must(uuid.NewV7()).String() }

// hold stops the run for a human: StatePending for a call, StateIntercepted for a dry
// run, with the exact request that would be sent.
func (s *Service) hold(ctx context.Context, p prepared, state State) (Step, error) {
	call, err := p.target.Prepare(ctx, p.run.Effective())
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable {
		return s.refuse(ctx, p, f)
	}
	if err != nil {
		return Step{}, err
	}
	if err := s.findEditor(ctx, &p); err != nil {
		return Step{}, err
	}
	a := p.pending(newApprovalID(), state, call.Preview(p.run.Effective()), s.Now())
	b := &pgx.Batch{}
	p.queueHold(b, a, state)
	queueApproval(b, a)
	p.queueMatches(b)
	rec := p.record("run.held")
	if state == StateIntercepted {
		rec.Action = "run.intercepted"
	}
	rec.Outcome, rec.SubjectType, rec.SubjectID = string(state), "approval", a.ID
	rec.Details = p.explained(map[string]any{"approval_id": a.ID})
	audit.Queue(b, rec)
	failpoint.Hit("before_hold")
	done, found, err := s.apply(ctx, p.run, b)
	failpoint.Hit("after_hold")
	switch {
	case err != nil:
		return Step{}, err
	case !found:
		return s.movedOn(ctx, p.run.ref())
	}
	s.prepared.cache.Remove(p.run.ref())
	s.ended(done)
	return waiting(done, a.ID, a.ExpiresAt, s.Now()), nil
}

// waiting is the step of a run that a human has to release.
func waiting(r Run, approvalID string, until *time.Time, now time.Time) Step {
	// A little later than the row says: the clocks of Temporal and Postgres may differ.
	return Step{State: r.State, ApprovalID: approvalID, After: max(time.Second, until.Sub(now)+100*time.Millisecond)}
}

// requirements are the approvals that the call needs: the policies', and for a dry
// run, or a call that was held before and that no policy holds any more, one of anybody
// who may approve.
func (p prepared) requirements() []governance.Requirement {
	if len(p.verdict.Requirements) > 0 {
		return p.verdict.Requirements
	}
	return []governance.Requirement{{Rule: governance.DefaultApproval()}}
}

// approval starts the record of an asking, or of a block.
func (p prepared) approval(id, kind string) dbsqlc.InsertApprovalParams {
	r := p.run
	return dbsqlc.InsertApprovalParams{
		ID: id, TenantID: r.TenantID, RunID: r.ID, ExecutionID: r.ExecutionID, Kind: kind, Attempt: r.Attempt,
		Provider: r.Verb.Provider, Verb: r.Verb.Verb, Args: string(p.target.Mask(r.Effective())), RiskLevel: string(r.Risk),
		PolicyName: r.PolicyName, Reason: r.Reason, Requester: r.KeyID,
		Explanation: mustJSON(orNone(p.verdict.Matches)), Requirements: []byte("[]"), PolicyIds: []uuid.UUID{},
		CallHash: []byte{}, SchemaHash: []byte{},
	}
}

// pending is the record of an asking, bound to the call, its schema, the credential
// and the versions of the policies that hold it.
func (p prepared) pending(id string, state State, preview json.RawMessage, now time.Time) dbsqlc.InsertApprovalParams {
	kind := kindHold
	if state == StateIntercepted {
		kind = kindDryRun
	}
	a := p.approval(id, kind)
	reqs := p.requirements()
	timeout, _, _ := governance.MergedRule(reqs)
	expires := now.Add(timeout)
	a.Status, a.Request, a.Requirements, a.ExpiresAt = approvalPending, preview, mustJSON(reqs), &expires
	for _, req := range reqs {
		if req.PolicyID != nil {
			a.PolicyIds = append(a.PolicyIds, *req.PolicyID)
		}
	}
	a.CallHash, a.SchemaHash, a.CredentialID = p.callHash(), p.target.SchemaHash(), p.target.CredentialID()
	if p.editedFrom != nil {
		a.EditedFrom, a.EditedBy = &p.editedFrom.approvalID, &p.editedFrom.by
	}
	return a
}

// callHash is the fingerprint of the call as it would be sent.
func (p prepared) callHash() []byte {
	print, err := fingerprint(p.run.Verb, p.run.Effective(), p.run.DryRun)
	if err != nil {
		// The arguments passed the strict reader when they came in.
		panic(err)
	}
	return print
}

func queueApproval(b *pgx.Batch, a dbsqlc.InsertApprovalParams) {
	b.Queue(dbsqlc.InsertApproval, a.ID, a.TenantID, a.RunID, a.ExecutionID, a.Status, a.Provider, a.Verb, a.Args, a.RiskLevel,
		a.PolicyName, a.Reason, a.Requester, a.ExpiresAt, a.Kind, a.Attempt, a.Explanation, a.Request, a.Requirements, a.PolicyIds,
		a.CallHash, a.SchemaHash, a.CredentialID, a.EditedFrom, a.EditedBy)
}

func (p prepared) queueHold(b *pgx.Batch, a dbsqlc.InsertApprovalParams, state State) {
	r := p.run
	var result *string
	if state == StateIntercepted {
		shown := string(a.Request)
		result = &shown
	}
	decision := string(governance.PendingApproval)
	if state == StateIntercepted {
		decision = r.Decision
	}
	b.Queue(dbsqlc.HoldRun, string(state), a.ID, result, string(r.Risk), string(r.Operation), decision, r.PolicyName, r.Reason,
		a.CredentialID, r.TenantID, r.ID, r.Attempt)
	b.Queue(dbsqlc.RequireRunChanged, r.TenantID, r.ID)
}

// queueMatches notes which policies matched, for their coverage.
func (p prepared) queueMatches(b *pgx.Batch) {
	r := p.run
	for _, m := range p.verdict.Matches {
		b.Queue(dbsqlc.InsertPolicyMatch, r.TenantID, m.PolicyID, r.ID, r.Attempt, m.Version, string(m.Mode), string(m.Action), m.Decided,
			r.Decision, string(p.verdict.ShadowDecision))
	}
}

// explained adds to what an audit record says the policies that matched.
func (p prepared) explained(d map[string]any) json.RawMessage {
	if len(p.verdict.Matches) > 0 {
		d["policies"] = p.verdict.Matches
	}
	if p.verdict.ShadowDecision != "" && p.verdict.ShadowDecision != p.verdict.Decision {
		d["shadow_decision"] = p.verdict.ShadowDecision
	}
	if len(d) == 0 {
		return nil
	}
	return mustJSON(d)
}

// letThroughBy says under whose approval a run is sent.
func (p prepared) letThroughBy() json.RawMessage {
	d := map[string]any{}
	if p.run.GrantID != nil {
		d["grant_id"] = *p.run.GrantID
	}
	if p.run.ApprovalID != nil {
		d["approval_id"] = *p.run.ApprovalID
	}
	return p.explained(d)
}

// apply sends a batch whose first statement returns the changed run; found is false,
// and nothing is changed, where the row was not in a state for it.
func (s *Service) apply(ctx context.Context, r Run, b *pgx.Batch) (done Run, found bool, err error) {
	err = s.DB.Batch(ctx, r.TenantID, b, func(res pgx.BatchResults) error {
		var err error
		if done, found, err = oneRow(res); err != nil {
			return err
		}
		if !found {
			return errNotOurs
		}
		return nil
	})
	if err != nil && !isNotOurs(err) {
		return Run{}, false, fmt.Errorf("run: change: %w", err)
	}
	return done, found, nil
}

// held is an approval with what it has gathered.
type held struct {
	row        dbsqlc.Approval
	reqs       []governance.Requirement
	votes      []governance.Voter
	keyRevoked bool
}

func (h held) escalated() bool { return h.row.EscalatedAt != nil }

func (h held) enough() bool {
	_, enough := governance.Count(h.reqs, h.votes, h.escalated())
	return enough
}

// lookAtHeld says what follows from the approval that the run has: it may be sent, has
// to wait on, or falls because something it was bound to has changed.
func (s *Service) lookAtHeld(ctx context.Context, p prepared) (_ prepared, step Step, cleared bool, err error) {
	h, err := s.readHeld(ctx, p.run)
	if err != nil {
		return p, Step{}, false, err
	}
	if h.row.Status != approvalPending && (h.row.Status != approvalApproved || p.run.State != StateClaimed) {
		// The run may have been read before the decision that its approval shows.
		moved, err := s.moved(ctx, p.run)
		switch {
		case err != nil:
			return p, Step{}, false, err
		case moved:
			return s.admit(ctx, p.run.ref())
		}
	}
	switch h.row.Status {
	case approvalPending, approvalApproved:
	default:
		// Its end was recorded together with the run's.
		return p, Step{State: p.run.State, Done: true}, false, nil
	}
	if h.keyRevoked {
		f := fault.New(fault.CodeAPIKeyRevoked, "")
		step, err = s.closeHeld(ctx, p, closing{
			status: approvalCancelled, state: StateRefused, code: f.Code, message: f.Message, reason: "The API key that asked for the call was revoked.",
		})
		return p, step, false, err
	}
	if why := p.drift(h); why != "" {
		return s.supersede(ctx, p, h, why)
	}
	switch {
	case h.row.Status == approvalApproved && p.run.State == StateClaimed && h.enough():
		return p, Step{}, true, nil
	case h.row.Status == approvalApproved:
		return s.supersede(ctx, p, h, "Somebody who approved may not approve any more.")
	case s.Now().Before(*h.row.ExpiresAt):
		return p, waiting(p.run, h.row.ID, h.row.ExpiresAt, s.Now()), false, nil
	}
	step, err = s.timeOut(ctx, p, h)
	return p, step, false, err
}

// moved reports whether the held run's row is another than when it was read.
func (s *Service) moved(ctx context.Context, r Run) (bool, error) {
	now, err := s.get(ctx, r.TenantID, r.ID)
	if err != nil {
		return false, err
	}
	return now.State != r.State || now.Attempt != r.Attempt || now.ApprovalID == nil || *now.ApprovalID != *r.ApprovalID, nil
}

func (s *Service) readHeld(ctx context.Context, r Run) (h held, err error) {
	b := &pgx.Batch{}
	b.Queue(dbsqlc.ApprovalRow, r.TenantID, *r.ApprovalID)
	b.Queue(dbsqlc.Votes, r.TenantID, *r.ApprovalID)
	if r.KeyID != nil {
		b.Queue(dbsqlc.KeyRevoked, r.TenantID, *r.KeyID)
	}
	err = s.DB.Batch(ctx, r.TenantID, b, func(res pgx.BatchResults) error {
		rows, err := res.Query()
		if err != nil {
			return err
		}
		if h.row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[dbsqlc.Approval]); err != nil {
			return err
		}
		if rows, err = res.Query(); err != nil {
			return err
		}
		votes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.VotesRow])
		if err != nil {
			return err
		}
		h.votes = voters(votes, h.row)
		if r.KeyID != nil {
			return res.QueryRow().Scan(&h.keyRevoked)
		}
		return nil
	})
	if err != nil {
		return held{}, fmt.Errorf("run: read the approval: %w", err)
	}
	return h, h.parse()
}

func (h *held) parse() error {
	if err := json.Unmarshal(h.row.Requirements, &h.reqs); err != nil {
		return fmt.Errorf("run: requirements of an approval: %w", err)
	}
	return nil
}

// voters are the counted approvals. Who edited the arguments approves his own.
func voters(votes []dbsqlc.VotesRow, a dbsqlc.Approval) []governance.Voter {
	var list []governance.Voter
	for _, v := range votes {
		list = append(list, governance.Voter{UserID: *v.UserID, Role: v.Role, Self: isSelf(a, *v.UserID)})
	}
	return list
}

func isSelf(a dbsqlc.Approval, user uuid.UUID) bool { return a.EditedBy != nil && *a.EditedBy == user }

// drift says what an approval was bound to and is no more; "" where all still holds.
func (p prepared) drift(h held) string {
	switch why := p.rebuilt(h); {
	case why != "":
		return why
	case p.verdict.Decision == governance.Block:
		return "The call is blocked now: " + p.verdict.Reason
	case !slices.EqualFunc(p.requirements(), h.reqs, sameRequirement):
		return "The policies that hold the call have changed."
	}
	return ""
}

// rebuilt says why the request would be another than the one that was asked about; ""
// where it would not.
func (p prepared) rebuilt(h held) string {
	switch {
	case !bytes.Equal(p.callHash(), h.row.CallHash):
		return "The call is not the one that was asked about."
	case !bytes.Equal(p.target.SchemaHash(), h.row.SchemaHash):
		return "The verb has changed: its schema, or the request that is made of it."
	case p.target.Connected() != nil, !sameID(p.target.CredentialID(), h.row.CredentialID):
		return "The provider's credential has changed."
	}
	return ""
}

func sameID(a, b *uuid.UUID) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameRequirement(a, b governance.Requirement) bool {
	return sameID(a.PolicyID, b.PolicyID) && a.Version == b.Version
}

// supersede closes an approval that no longer fits and judges the call anew.
func (s *Service) supersede(ctx context.Context, p prepared, h held, why string) (_ prepared, step Step, cleared bool, err error) {
	b := &pgx.Batch{}
	p.queueRelease(b, nil, p.run.EditedArgs, s.Now().Add(s.cfg.DefaultWait))
	queueClose(b, approvalSuperseded, why, nil, p.run.TenantID, h.row.ID)
	rec := p.record("approval.superseded")
	rec.ActorType, rec.ActorID = audit.ActorSystem, ""
	rec.Outcome, rec.SubjectType, rec.SubjectID = approvalSuperseded, "approval", h.row.ID
	rec.Details = mustJSON(map[string]string{"approval_id": h.row.ID, "reason": why})
	audit.Queue(b, rec)
	failpoint.Hit("before_supersede")
	done, found, err := s.apply(ctx, p.run, b)
	failpoint.Hit("after_supersede")
	switch {
	case err != nil:
		return p, Step{}, false, err
	case !found:
		step, err = s.movedOn(ctx, p.run.ref())
		return p, step, false, err
	}
	p.run.State, p.run.ApprovalID, p.run.Held, p.run.GiveUpAt = done.State, nil, done.Held, done.GiveUpAt
	return s.clear(ctx, p)
}

// queueRelease puts the run back among the claimed, with the approval that released it
// or none.
func (p prepared) queueRelease(b *pgx.Batch, approvalID *string, edited json.RawMessage, giveUp time.Time) {
	var args *string
	if edited != nil {
		text := string(edited)
		args = &text
	}
	b.Queue(dbsqlc.ReleaseRun, approvalID, args, giveUp, p.run.TenantID, p.run.ID, p.run.Attempt)
	b.Queue(dbsqlc.RequireRunChanged, p.run.TenantID, p.run.ID)
}

// timeOut ends an approval that nobody decided in time, or turns once to the owners
// and admins, for the same time again.
func (s *Service) timeOut(ctx context.Context, p prepared, h held) (Step, error) {
	timeout, onTimeout, _ := governance.MergedRule(h.reqs)
	if onTimeout != governance.OnTimeoutEscalate || h.escalated() {
		return s.closeHeld(ctx, p, closing{
			status: approvalExpired, state: StateExpired, code: fault.CodeGovernanceBlocked,
			message: "Nobody approved the call in time. Nothing was sent; the id may be used again.", reason: "Nobody decided in time.",
		})
	}
	until := s.Now().Add(timeout)
	err := s.DB.InTenant(ctx, p.run.TenantID, func(tx pgx.Tx) error {
		n, err := dbsqlc.New().EscalateApproval(ctx, tx, dbsqlc.EscalateApprovalParams{ExpiresAt: &until, TenantID: p.run.TenantID, ID: h.row.ID})
		if err != nil || n == 0 {
			return err
		}
		rec := p.record("approval.escalated")
		rec.ActorType, rec.ActorID = audit.ActorSystem, ""
		rec.SubjectType, rec.SubjectID = "approval", h.row.ID
		rec.Details = mustJSON(map[string]any{"approval_id": h.row.ID, "expires_at": until.UTC()})
		return audit.Append(ctx, tx, rec)
	})
	if err != nil {
		return Step{}, fmt.Errorf("run: escalate: %w", err)
	}
	return waiting(p.run, h.row.ID, &until, s.Now()), nil
}

func queueClose(b *pgx.Batch, status, reason string, by *uuid.UUID, tenant uuid.UUID, approvalID string) {
	b.Queue(dbsqlc.CloseApproval, status, reason, by, tenant, approvalID)
	b.Queue(dbsqlc.RequireApprovalIs, tenant, approvalID, status)
}

// closing is how a held run ends without being sent.
type closing struct {
	status  string // of the approval
	state   State  // of the run; a dry run stays intercepted
	code    fault.Code
	message string // for who called
	reason  string // for who looks at the approval
}

// closeHeld ends a held run and its approval in one transaction.
func (s *Service) closeHeld(ctx context.Context, p prepared, c closing) (Step, error) {
	r := p.run
	if r.State == StateClaimed {
		// Approved, and not sent yet: what was decided stays, unless it fell with what it was about.
		var more []func(*pgx.Batch)
		if c.status == approvalSuperseded {
			more = append(more, func(b *pgx.Batch) { queueClose(b, c.status, c.reason, nil, r.TenantID, *r.ApprovalID) })
		}
		return s.finish(ctx, p, ending{state: StateRefused, code: c.code, message: c.message}, "run.refused", more...)
	}
	b := &pgx.Batch{}
	b.Queue(dbsqlc.CloseHeldRun, string(c.state), string(c.code), c.message, r.TenantID, r.ID, r.Attempt)
	b.Queue(dbsqlc.RequireRunChanged, r.TenantID, r.ID)
	queueClose(b, c.status, c.reason, nil, r.TenantID, *r.ApprovalID)
	rec := p.record("approval." + c.status)
	rec.Outcome, rec.SubjectType, rec.SubjectID = c.status, "approval", *r.ApprovalID
	rec.Details = mustJSON(map[string]string{"approval_id": *r.ApprovalID, "reason": c.reason})
	rec.ActorType, rec.ActorID = audit.ActorSystem, ""
	audit.Queue(b, rec)
	failpoint.Hit("before_close")
	done, found, err := s.apply(ctx, r, b)
	failpoint.Hit("after_close")
	if err != nil {
		return Step{}, err
	}
	s.prepared.cache.Remove(r.ref())
	if !found {
		return s.movedOn(ctx, r.ref())
	}
	s.ended(done)
	return Step{State: done.State, Done: true}, nil
}

func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
