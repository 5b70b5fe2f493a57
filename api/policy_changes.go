package api

import (
	"context"
	"strconv"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
)

// matchers returns nil, which means absent, for nil only. A member that is there and empty would
// ask for nothing, so that the matcher would fit more than its author meant: it is refused.
func matchers(v *wire.Validation, path string, list []matcherBody) []governance.Matcher {
	if list == nil {
		return nil
	}
	out := make([]governance.Matcher, len(list))
	for i, m := range list {
		place := path + "/" + strconv.Itoa(i)
		read := func(name string, text *string) string {
			if text == nil {
				return ""
			}
			if *text == "" {
				v.Add(place+"/"+name, "required", "must not be empty")
			}
			return *text
		}
		out[i] = governance.Matcher{
			Type: governance.MatcherType(read("type", m.Type)), Value: read("value", m.Value), Verb: read("verb", m.Verb),
			Provider: read("provider", m.Provider), Risk: read("risk_level", m.Risk), Operation: read("operation_type", m.Operation), Domain: read("domain", m.Domain),
		}
		switch {
		case m.RiskLevel == nil:
		case m.Risk != nil:
			v.Add(place+"/riskLevel", "exclusive", "must be absent beside risk_level, which is the same")
		default:
			out[i].Risk = read("riskLevel", m.RiskLevel)
		}
	}
	return out
}

// narrowing returns nil, which means absent, for nil only.
func (b *narrowingBody) narrowing(v *wire.Validation, path string) *governance.Narrowing {
	if b == nil {
		return nil
	}
	return &governance.Narrowing{All: matchers(v, path+"/all", b.All), Except: matchers(v, path+"/except", b.Except)}
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

// lookups returns nil, which means absent, for nil only.
func lookups(list []lookupBody) []governance.Lookup {
	if list == nil {
		return nil
	}
	out := make([]governance.Lookup, len(list))
	for i, l := range list {
		out[i] = governance.Lookup(l)
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

func (h *policyHandlers) patchPolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b policyPatch
	if err := c.DecodeExact(&b, conditionValues, lookupArgs); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	patch := policy.Patch{
		Name: b.Name, Description: b.Description, Enabled: b.Enabled, Mode: b.Mode, Priority: b.Priority,
		Matchers: matchers(&v, "/verbMatchers", b.VerbMatchers), Match: b.Match.narrowing(&v, "/match"),
		Conditions: conditions(b.Conditions), Lookups: lookups(b.Lookups), Approval: b.Approval.draft(),
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if b.Action != nil {
		patch.Action = b.Action.Type
	}
	p, warnings, err := h.policies.Change(ctx, c.Actor, c.ID(), patch, wire.Expect(c, wire.VersionTag))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerPolicy(p, warnings), nil
}

// restorePolicy reads no body: the path names the version.
func (h *policyHandlers) restorePolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	version, err := strconv.ParseInt(c.Param("version"), 10, 32)
	if err != nil {
		version = 0 // which no policy has
	}
	p, warnings, err := h.policies.Restore(ctx, c.Actor, c.ID(), int32(version))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerPolicy(p, warnings), nil
}
