package api

import (
	"context"
	"strconv"

	"agentruntime/api/wire"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/kernel/governance"
)

// matchers returns nil, which means absent, for nil only.
func matchers(list []matcherBody) []governance.Matcher {
	if list == nil {
		return nil
	}
	out := make([]governance.Matcher, len(list))
	for i, m := range list {
		out[i] = governance.Matcher(m)
	}
	return out
}

// conditions returns nil, which means absent, for nil only.
func conditions(list []conditionBody) []governance.Condition {
	if list == nil {
		return nil
	}
	out := make([]governance.Condition, len(list))
	for i, c := range list {
		out[i] = governance.Condition(c)
	}
	return out
}

func (r *approvalRule) draft() *policy.ApprovalDraft {
	if r == nil {
		return nil
	}
	return &policy.ApprovalDraft{
		Required: r.Required, Approvers: r.Approvers, SelfApproval: r.SelfApproval,
		TimeoutSeconds: r.TimeoutSeconds, OnTimeout: r.OnTimeout, ReasonRequired: r.ReasonRequired,
	}
}

// policyPatch has the members of a policy. What is absent stays as it is.
type policyPatch policyBody

func (s *Server) patchPolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b policyPatch
	if err := c.DecodeExact(&b, conditionValues); err != nil {
		return wire.Reply{}, err
	}
	patch := policy.Patch{
		Name: b.Name, Description: b.Description, Enabled: b.Enabled, Mode: b.Mode, Priority: b.Priority,
		Matchers: matchers(b.VerbMatchers), Conditions: conditions(b.Conditions), Approval: b.Approval.draft(),
	}
	if b.Action != nil {
		patch.Action = b.Action.Type
	}
	p, warnings, err := s.deps.Policies.Change(ctx, c.Actor, c.ID(), patch, wire.Expect(c, wire.VersionTag))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerPolicy(p, warnings), nil
}

// restorePolicy reads no body: the path names the version.
func (s *Server) restorePolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	version, err := strconv.ParseInt(c.Param("version"), 10, 32)
	if err != nil {
		version = 0 // which no policy has
	}
	p, warnings, err := s.deps.Policies.Restore(ctx, c.Actor, c.ID(), int32(version))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerPolicy(p, warnings), nil
}
