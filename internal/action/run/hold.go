package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/record/audit"
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
	rec := p.record(audit.RunHeld)
	if state == StateIntercepted {
		rec.Action = audit.RunIntercepted
	}
	rec.Outcome, rec.SubjectType, rec.SubjectID = string(state), audit.SubjectApproval, a.ID
	rec.Details = p.explained(map[string]any{"approval_id": a.ID})
	audit.QueueRaw(b, rec)
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

func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
