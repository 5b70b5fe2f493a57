package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Policies is what the policy and masking endpoints need.
type Policies interface {
	Create(ctx context.Context, who actor.Actor, d policy.Draft) (policy.Policy, []policy.Warning, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (policy.Policy, []policy.Warning, error)
	List(ctx context.Context, tenant uuid.UUID, f policy.Filter) (page []policy.Policy, more bool, err error)
	Replace(ctx context.Context, who actor.Actor, id uuid.UUID, d policy.Draft, expect fault.Expect[int32]) (policy.Policy, []policy.Warning, error)
	Change(ctx context.Context, who actor.Actor, id uuid.UUID, p policy.Patch, expect fault.Expect[int32]) (policy.Policy, []policy.Warning, error)
	Restore(ctx context.Context, who actor.Actor, id uuid.UUID, version int32) (policy.Policy, []policy.Warning, error)
	Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32]) error
	Versions(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) (page []policy.Version, more bool, err error)
	Simulate(ctx context.Context, tenant uuid.UUID, c policy.Candidate) (policy.Simulation, error)
	Coverage(ctx context.Context, tenant, id uuid.UUID, from, to *time.Time) (policy.Coverage, error)
	Masking(ctx context.Context, tenant uuid.UUID) ([]policy.MaskPath, error)
	SetMasking(ctx context.Context, who actor.Actor, paths []policy.MaskPath, expect fault.Expect[[]policy.MaskPath]) ([]policy.MaskPath, error)
}

// policyState is a policy as it was in one version.
type policyState struct {
	ID           uuid.UUID                `json:"id"`
	Version      int32                    `json:"version"`
	Name         string                   `json:"name"`
	Description  string                   `json:"description"`
	Enabled      bool                     `json:"enabled"`
	Mode         governance.Mode          `json:"mode"`
	Priority     int32                    `json:"priority"`
	VerbMatchers []governance.Matcher     `json:"verbMatchers"`
	Match        narrowing                `json:"match"`
	Conditions   []governance.Condition   `json:"conditions"`
	Lookups      []governance.Lookup      `json:"lookups"`
	Action       policyAction             `json:"action"`
	Approval     *governance.ApprovalRule `json:"approval"`
}

// narrowing is what excludes verbs that verbMatchers fit.
type narrowing struct {
	All    []governance.Matcher `json:"all"`
	Except []governance.Matcher `json:"except"`
}

type policyAction struct {
	Type governance.Action `json:"type"`
}

// policyView is a policy as lists show it.
type policyView struct {
	policyState

	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

// policyDetail is a policy with its current warnings.
type policyDetail struct {
	policyView

	Warnings []policy.Warning `json:"warnings"`

	repeatMark
}

func viewState(p policy.Policy) policyState {
	v := policyState{
		ID: p.ID, Version: p.Version, Name: p.Name, Description: p.Description, Enabled: p.Enabled, Mode: p.Mode, Priority: p.Priority,
		VerbMatchers: wire.Array(p.Matchers), Match: narrowing{wire.Array(p.Match.All), wire.Array(p.Match.Except)},
		Conditions: wire.Array(p.Conditions), Lookups: wire.Array(p.Lookups), Action: policyAction{p.Action},
	}
	if p.Action == governance.ActionRequireApproval {
		v.Approval = &p.Approval
	}
	return v
}

func viewPolicy(p policy.Policy) policyView {
	return policyView{viewState(p), p.CreatedAt, p.CreatedBy, p.UpdatedAt, p.UpdatedBy}
}

// answerPolicy answers with a policy, its warnings, and its version as the ETag.
func answerPolicy(p policy.Policy, warnings []policy.Warning) wire.Reply {
	return wire.Reply{Data: policyDetail{policyView: viewPolicy(p), Warnings: wire.Array(warnings)}, Header: http.Header{"Etag": {wire.VersionTag(p.Version)}}}
}

type policyBody struct {
	Name         *string         `json:"name"`
	Description  *string         `json:"description"`
	Enabled      *bool           `json:"enabled"`
	Mode         *string         `json:"mode"`
	Priority     *int32          `json:"priority"`
	VerbMatchers []matcherBody   `json:"verbMatchers"`
	Match        *narrowingBody  `json:"match"`
	Conditions   []conditionBody `json:"conditions"`
	Lookups      []lookupBody    `json:"lookups"`
	Action       *actionBody     `json:"action"`
	Approval     *approvalRule   `json:"approval"`
}

type (
	// matcherBody has type and value, or any of the others.
	matcherBody struct {
		Type      *string `json:"type"`
		Value     *string `json:"value"`
		Verb      *string `json:"verb"`
		Provider  *string `json:"provider"`
		Risk      *string `json:"risk_level"`
		RiskLevel *string `json:"riskLevel"` // another name of risk_level
		Operation *string `json:"operation_type"`
		Domain    *string `json:"domain"`
	}
	narrowingBody struct {
		All    []matcherBody `json:"all"`
		Except []matcherBody `json:"except"`
	}
	conditionBody governance.Condition
	lookupBody    governance.Lookup
	actionBody    struct {
		Type *string `json:"type"`
	}
	approvalRule struct {
		Required       *int32                `json:"required"`
		Approvers      []governance.Approver `json:"approvers"`
		SelfApproval   *bool                 `json:"self_approval"`
		TimeoutSeconds *int64                `json:"timeout"`
		OnTimeout      *string               `json:"on_timeout"`
		ReasonRequired *bool                 `json:"reason_required"`
	}
)

// conditionValues is where names may differ in case only: the values are compared with
// arguments.
const conditionValues = "/conditions/*/value"

// lookupArgs is where the names are those of a verb's arguments.
const lookupArgs = "/lookups/*/args"

// draft checks the form of the body. The policy domain judges its content.
func (b policyBody) draft(v *wire.Validation, under string) policy.Draft {
	d := policy.Draft{Enabled: b.Enabled}
	if b.Name == nil {
		v.Add(under+"/name", "required", "is missing")
	} else {
		d.Name = *b.Name
	}
	if b.Action == nil || b.Action.Type == nil {
		v.Add(under+"/action", "required", `is missing, for example {"type": "require_approval"}`)
	} else {
		d.Action = *b.Action.Type
	}
	if b.Description != nil {
		d.Description = *b.Description
	}
	if b.Mode != nil {
		d.Mode = *b.Mode
	}
	if b.Priority != nil {
		d.Priority = *b.Priority
	}
	d.Matchers, d.Conditions, d.Approval = matchers(v, under+"/verbMatchers", b.VerbMatchers), conditions(b.Conditions), b.Approval.draft()
	if b.Match != nil {
		d.Match = *b.Match.narrowing(v, under+"/match")
	}
	d.Lookups = lookups(b.Lookups)
	return d
}

func policyDraft(c *wire.Call) (policy.Draft, error) {
	var b policyBody
	if err := c.DecodeExact(&b, conditionValues, lookupArgs); err != nil {
		return policy.Draft{}, err
	}
	var v wire.Validation
	d := b.draft(&v, "")
	return d, v.Err()
}

func (h *policyHandlers) createPolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := policyDraft(c)
	if err != nil {
		return wire.Reply{}, err
	}
	p, warnings, err := h.policies.Create(ctx, c.Actor, d)
	if err != nil {
		return wire.Reply{}, err
	}
	return answerCreated(answerPolicy(p, warnings), "/v1/policies", p.ID), nil
}

func (h *policyHandlers) getPolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	p, warnings, err := h.policies.Get(ctx, c.Actor.TenantID, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	return answerPolicy(p, warnings), nil
}

func (h *policyHandlers) putPolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := policyDraft(c)
	if err != nil {
		return wire.Reply{}, err
	}
	p, warnings, err := h.policies.Replace(ctx, c.Actor, c.ID(), d, wire.Expect(c, wire.VersionTag))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerPolicy(p, warnings), nil
}

func (h *policyHandlers) deletePolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.policies.Delete(ctx, c.Actor, c.ID(), wire.Expect(c, wire.VersionTag)))
}

func (h *policyHandlers) listPolicies(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, err := policyFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	policies, more, err := h.policies.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, policies, more, viewPolicy, func(p policy.Policy) uuid.UUID { return p.ID }), nil
}

func policyFilter(c *wire.Call) (f policy.Filter, err error) {
	limit, before, err := c.PageByID()
	if err != nil {
		return f, err
	}
	f.Limit = limit
	if before != nil {
		f.Before = *before
	}
	if f.Enabled, err = c.QueryBool("enabled"); err != nil {
		return f, err
	}
	f.Mode, _ = c.Query("mode")
	f.Action, _ = c.Query("action")
	if name, given, err := c.QueryVerb(); err != nil {
		return f, err
	} else if given {
		f.Verb = &name
	}
	return f, nil
}

// policyVersion is one version of a policy and the change that made it.
type policyVersion struct {
	Version   int32         `json:"version"`
	Change    policy.Change `json:"change"`
	Policy    policyState   `json:"policy"`
	ChangedAt time.Time     `json:"changed_at"`
	ChangedBy string        `json:"changed_by"`
}

func viewPolicyVersion(v policy.Version) policyVersion {
	return policyVersion{v.Version, v.Change, viewState(v.Policy), v.ChangedAt, v.ChangedBy}
}

func (h *policyHandlers) listPolicyVersions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return listVersions(ctx, c, h.policies.Versions, viewPolicyVersion, func(v policy.Version) int32 { return v.Version })
}
