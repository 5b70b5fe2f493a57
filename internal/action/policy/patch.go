package policy

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
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/quota"
)

// Patch changes a policy. What is nil stays as it is.
type Patch struct {
	Name        *string
	Description *string
	Enabled     *bool
	Mode        *string
	Priority    *int32
	Matchers    []governance.Matcher
	Match       *governance.Narrowing // whole
	Conditions  []governance.Condition
	Lookups     []governance.Lookup
	Action      *string
	// Approval changes the approval rule in the same way. A policy that becomes one of
	// require_approval begins with governance.DefaultApproval; one that stops being one loses
	// its rule.
	Approval *ApprovalDraft
}

// draft returns the policy with the patch over it, as a draft that is checked like any other.
func (p Patch) draft(was Policy) Draft {
	mode, action := string(was.Mode), string(was.Action)
	d := Draft{
		Name: was.Name, Description: was.Description, Enabled: &was.Enabled, Priority: was.Priority,
		Matchers: was.Matchers, Match: was.Match, Conditions: was.Conditions, Lookups: was.Lookups,
	}
	set(&d.Name, p.Name)
	set(&d.Description, p.Description)
	set(&d.Priority, p.Priority)
	set(&d.Match, p.Match)
	set(&mode, p.Mode)
	set(&action, p.Action)
	d.Mode, d.Action = mode, action
	if p.Enabled != nil {
		d.Enabled = p.Enabled
	}
	if p.Matchers != nil {
		d.Matchers = p.Matchers
	}
	if p.Conditions != nil {
		d.Conditions = p.Conditions
	}
	if p.Lookups != nil {
		d.Lookups = p.Lookups
	}
	d.Approval = p.Approval
	// The action is read without regard to case, so it is compared as it will be stored.
	becomes := governance.Normalize(governance.Policy{Action: governance.Action(action)}).Action
	if was.Action == governance.ActionRequireApproval && becomes == governance.ActionRequireApproval {
		d.Approval = p.Approval.over(was.Approval)
	}
	return d
}

// over returns a whole rule: was, with what d has over it.
func (d *ApprovalDraft) over(was governance.ApprovalRule) *ApprovalDraft {
	onTimeout := string(was.OnTimeout)
	whole := &ApprovalDraft{
		Required: &was.Required, Approvers: was.Approvers, SelfApproval: &was.SelfApproval, TimeoutSeconds: &was.TimeoutSeconds,
		OnTimeout: &onTimeout, ReasonRequired: &was.ReasonRequired,
	}
	if d == nil {
		return whole
	}
	set(whole.Required, d.Required)
	set(whole.SelfApproval, d.SelfApproval)
	set(whole.TimeoutSeconds, d.TimeoutSeconds)
	set(whole.OnTimeout, d.OnTimeout)
	set(whole.ReasonRequired, d.ReasonRequired)
	if d.Approvers != nil {
		whole.Approvers = d.Approvers
	}
	return whole
}

// errMoved: another change came between the reading and the writing of a patch.
var errMoved = errors.New("policy: it has changed meanwhile")

// patchTries is how often a patch starts again because of another change.
const patchTries = 5

// Change patches a policy; POLICY_NOT_FOUND. It refuses what Replace refuses. expect is asked
// about the version that the policy is in. CONFLICT where other changes come again and again.
func (s *Service) Change(ctx context.Context, who actor.Actor, id uuid.UUID, p Patch, expect fault.Expect[int32]) (Policy, []Warning, error) {
	for range patchTries {
		row, err := s.q.GetPolicy(ctx, s.db.Tenant(who.TenantID), dbsqlc.GetPolicyParams{TenantID: who.TenantID, ID: id})
		if err != nil {
			return Policy{}, nil, readError(err)
		}
		if err := expect.Check(row.Version); err != nil {
			return Policy{}, nil, err
		}
		was, err := fromRow(row)
		if err != nil {
			return Policy{}, nil, err
		}
		changed, warnings, err := s.Replace(ctx, who, id, p.draft(was), func(version int32) error {
			if version != was.Version {
				return errMoved
			}
			return nil
		})
		if !errors.Is(err, errMoved) {
			return changed, warnings, err
		}
	}
	return Policy{}, nil, fault.New(fault.CodeConflict, "The policy changes at this moment. Repeat the call.")
}

// Restore gives a policy the content of one of its versions, as a new version. A deleted policy
// comes back. POLICY_NOT_FOUND for an id or a version that never was. The version is checked
// again: users that it names may be gone, which is VALIDATION_ERROR. It also refuses with
// QUOTA_EXCEEDED.
func (s *Service) Restore(ctx context.Context, who actor.Actor, id uuid.UUID, version int32) (Policy, []Warning, error) {
	old, err := s.q.GetPolicyVersion(ctx, s.db.Tenant(who.TenantID), dbsqlc.GetPolicyVersionParams{TenantID: who.TenantID, PolicyID: id, Version: version})
	if err != nil {
		return Policy{}, nil, readError(err)
	}
	was, err := decode(old.Policy)
	if err != nil {
		return Policy{}, nil, err
	}
	p, err := s.check(ctx, who.TenantID, Patch{}.draft(was))
	if err != nil {
		return Policy{}, nil, err
	}
	err = s.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if p, err = s.restore(ctx, tx, who, id, p); err != nil {
			return err
		}
		if err := s.record(ctx, tx, who, p, Restored, version, false); err != nil {
			return err
		}
		if err := s.followWindows(ctx, tx, who.TenantID, p.Policy); err != nil {
			return err
		}
		return s.closeGate(ctx, tx, who.TenantID)
	})
	return s.warned(ctx, who.TenantID, p, err)
}

// restore writes p over the policy, which may be deleted.
func (s *Service) restore(ctx context.Context, tx pgx.Tx, who actor.Actor, id uuid.UUID, p Policy) (Policy, error) {
	if _, err := s.q.BumpPolicySet(ctx, tx, who.TenantID); err != nil {
		return Policy{}, fmt.Errorf("policy: take turns: %w", err)
	}
	doc, err := encode(p)
	if err != nil {
		return Policy{}, err
	}
	row, err := s.q.RestorePolicy(ctx, tx, dbsqlc.RestorePolicyParams{
		TenantID: who.TenantID, ID: id, Name: p.Name, Description: p.Description, Enabled: p.Enabled, Mode: string(p.Mode),
		Priority: p.Priority, Action: string(p.Action), Document: doc, Instructions: instructions(p),
		ChangedBy: who.String(), ChangedAt: s.now(),
	})
	switch {
	case db.IsNoRows(err):
		return Policy{}, notFound()
	case err != nil:
		return Policy{}, fmt.Errorf("policy: restore: %w", err)
	}
	for _, r := range []quota.Resource{quota.Policies, quota.PolicyBytes} {
		if err := s.quotas.Require(ctx, tx, who.TenantID, r); err != nil {
			return Policy{}, err
		}
	}
	return fromRow(row)
}
