package run

import (
	"context"
	"encoding/json"
	"time"

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
	"agentruntime/internal/record/quota"
)

// hold stops the run until an approver releases it: StatePending for a call,
// StateIntercepted for a dry run. The approval shows the exact request that would be sent.
// The policies say how long it waits; see governance.MergedRule. Where as many of the tenant
// wait as may, the run is refused with QUOTA_EXCEEDED.
func (s *Service) hold(ctx context.Context, p prepared, state State) (flow.Step, error) {
	call, err := p.target.Prepare(ctx, p.run.Effective())
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable {
		return s.refuse(ctx, p, f)
	}
	if err != nil {
		return flow.Step{}, err
	}
	if state == StateIntercepted && p.run.Kind == actor.Map {
		return s.intercept(ctx, p, call.Preview(p.run.Effective()))
	}
	if p.run.EditedArgs != nil {
		if p.edit, err = approval.LastEdit(ctx, s.d.DB.Tenant(p.run.TenantID), p.run.subject()); err != nil {
			return flow.Step{}, err
		}
	}
	a := p.asking(approval.NewID(), state, call.Preview(p.run.Effective()), s.d.Now())
	b := &db.Batch{}
	changed := p.queueHold(b, a, state)
	approval.Ask(b, a)
	p.queueMatches(b)
	action, counted := audit.RunHeld, quota.Held
	if state == StateIntercepted {
		action, counted = audit.RunIntercepted, quota.DryRuns
	}
	rec := p.record(action)
	rec.Outcome, rec.SubjectType, rec.SubjectID = string(state), audit.SubjectApproval, a.ID
	rec.Details = p.explained(map[string]any{"approval_id": a.ID})
	audit.Queue(b, rec)
	p.emitAsked(b, a)
	s.d.Quotas.Queue(b, p.run.TenantID, counted)
	failpoint.Hit("before_hold", p.run.ID)
	done, found, err := s.apply(ctx, p.run, b, changed)
	failpoint.Hit("after_hold", p.run.ID)
	switch {
	case fault.HasCode(err, fault.CodeQuotaExceeded):
		return s.refuse(ctx, p, fault.As(err))
	case err != nil:
		return flow.Step{}, err
	case !found:
		return s.movedOn(ctx, p.run.ref())
	}
	s.carried.forget(p.run.ref())
	s.ended(done)
	return s.waiting(done, a.ID, governance.Asking{ExpiresAt: a.ExpiresAt, Requirements: a.Requirements}), nil
}

// intercept stops a write of a dry run of a Map. People are asked about all changes of the execution
// together, so this one asks nobody.
func (s *Service) intercept(ctx context.Context, p prepared, preview json.RawMessage) (flow.Step, error) {
	b := &db.Batch{}
	changed := p.queueHold(b, approval.New{Request: preview, Bound: approval.Binding{CredentialID: p.target.CredentialID()}}, StateIntercepted)
	p.queueMatches(b)
	rec := p.record(audit.RunIntercepted)
	rec.Outcome = string(StateIntercepted)
	rec.Details = p.explained(map[string]any{})
	audit.Queue(b, rec)
	done, found, err := s.apply(ctx, p.run, b, changed)
	switch {
	case err != nil:
		return flow.Step{}, err
	case !found:
		return s.movedOn(ctx, p.run.ref())
	}
	s.carried.forget(p.run.ref())
	s.ended(done)
	return flow.Step{State: done.State, Done: true}, nil
}

// waiting returns the step of a run that waits for an approval.
func (s *Service) waiting(r Run, approvalID string, a governance.Asking) flow.Step {
	details := flow.HoldDetails(flow.Hold{
		Verb: r.Verb.String(), Risk: string(r.Risk), ApprovalID: approvalID, Who: a.InWords(), Until: a.ExpiresAt, PublicURL: s.cfg.PublicURL,
	})
	// A little later than the row says: the clocks of Temporal and Postgres may differ.
	after := max(time.Second, a.ExpiresAt.Sub(s.d.Now())+100*time.Millisecond)
	return flow.Step{State: r.State, ApprovalID: approvalID, After: after, Details: details}
}

// requirements returns the approvals that the call needs: those of the policies. A dry run
// needs one by any approver. So does a call that was held before and that no policy holds
// now.
func (p prepared) requirements() []governance.Requirement {
	if len(p.verdict.Requirements) > 0 {
		return p.verdict.Requirements
	}
	return []governance.Requirement{{Rule: governance.DefaultApproval()}}
}

// approval returns the record of a block, or the common part of the record of an asking.
func (p prepared) approval(id string, kind governance.ApprovalKind) approval.New {
	r := p.run
	return approval.New{
		ID: id, Subject: r.subject(), Kind: kind, Provider: r.Verb.Provider, Verb: r.Verb.Verb,
		Args: p.target.Mask(r.Effective()), RiskLevel: string(r.Risk), PolicyName: r.PolicyName, Reason: r.Reason,
		Matches: p.verdict.Shown(), Requester: actor.CallerOf(r.KeyID, r.UserID),
	}
}

// asking returns the record of an asking. It is bound to the call, its schema, the verb's
// risk, operation type and idempotency, the credential, and the versions of the policies
// that hold it.
func (p prepared) asking(id string, state State, preview json.RawMessage, now time.Time) approval.New {
	kind := governance.ApprovalOfHold
	if state == StateIntercepted {
		kind = governance.ApprovalOfDryRun
	}
	a := p.approval(id, kind)
	a.Requirements, a.Request, a.Edited = p.requirements(), preview, p.edit
	timeout, _, _ := governance.MergedRule(a.Requirements)
	a.ExpiresAt = p.run.askedUntil(now.Add(timeout))
	a.Bound = approval.Binding{
		CallHash: p.callHash(), SchemaHash: p.target.SchemaHash(), CredentialID: p.target.CredentialID(),
		Risk: p.target.Risk(), Operation: p.target.Operation(), Idempotency: p.target.Idempotency(),
	}
	return a
}

// callHash returns the fingerprint of the call as it would be sent.
func (p prepared) callHash() []byte {
	print, err := fingerprint(p.run.key, p.run.Verb, p.run.Effective(), p.run.DryRun)
	if err != nil {
		// The arguments passed the strict reader when they came in.
		panic(err)
	}
	return print
}

func (p prepared) queueHold(b *db.Batch, a approval.New, state State) *db.Answer[[]dbsqlc.Run] {
	r := p.run
	q := dbsqlc.New()
	params := dbsqlc.HoldRunParams{
		State: string(state), ApprovalID: db.Optional(a.ID), RiskLevel: string(r.Risk), OperationType: string(r.Operation),
		Decision: string(governance.PendingApproval), PolicyName: r.PolicyName, Reason: r.Reason, CredentialID: a.Bound.CredentialID,
		TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt,
	}
	if state == StateIntercepted {
		params.Result, params.Decision = r.sealOptional(datakey.RunResult, a.Request), r.Decision
	}
	changed := db.Queue(b, q.HoldRun, params)
	db.Queue(b, q.RequireRunChanged, dbsqlc.RequireRunChangedParams{TenantID: r.TenantID, ID: r.ID})
	return changed
}

// queueMatches records which policies matched, for their coverage.
func (p prepared) queueMatches(b *db.Batch) {
	r := p.run
	for _, m := range p.verdict.Matches {
		db.QueueExec(b, dbsqlc.New().InsertPolicyMatch, dbsqlc.InsertPolicyMatchParams{
			TenantID: r.TenantID, PolicyID: m.PolicyID, RunID: r.ID, Attempt: r.Attempt, PolicyVersion: m.Version, Mode: string(m.Mode),
			Action: string(m.Action), Decided: m.Decided, Decision: r.Decision, Shadow: string(p.verdict.ShadowDecision),
		})
	}
}

// explained returns the details of an audit record with the policies that matched, nil
// where it has none.
func (p prepared) explained(d map[string]any) json.RawMessage {
	if len(p.verdict.Matches) > 0 {
		d["policies"] = p.verdict.Shown()
	}
	if n := p.verdict.Omitted(); n > 0 {
		d["policies_omitted"] = n
	}
	if p.verdict.ShadowDecision != "" && p.verdict.ShadowDecision != p.verdict.Decision {
		d["shadow_decision"] = p.verdict.ShadowDecision
	}
	if len(d) == 0 {
		return nil
	}
	return mustJSON(d)
}

// letThroughBy returns the details of an audit record that say under which approval or
// grant the run is sent, and with which credential.
func (p prepared) letThroughBy() json.RawMessage {
	d := map[string]any{}
	if p.run.GrantID != nil {
		d["grant_id"] = *p.run.GrantID
	}
	if p.run.ApprovalID != nil {
		d["approval_id"] = *p.run.ApprovalID
	}
	if id := p.target.CredentialID(); id != nil {
		kind, label := p.target.CredentialName()
		d["credential_id"], d["credential_type"], d["credential_label"] = *id, kind, label
	}
	return p.explained(d)
}
