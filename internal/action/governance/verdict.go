package governance

import (
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// Ruling is a decision without its reason, for callers that tell nobody why. It says the same as the
// Verdict about the call.
type Ruling struct {
	Decision Decision
	// Notify asks for a notice to the tenant that the call ran.
	Notify bool
	// Matched are the policies that matched, in both modes, in no order.
	Matched []uuid.UUID
	// Lookups are as in Verdict.
	Lookups []LookupCall
}

// Decide decides about a call as Evaluate does. It makes no reason, no explanation and no
// requirements, so it takes a part of the time.
func (s *Set) Decide(c Call) Ruling {
	e := evaluation{call: c, args: document{data: c.Args, left: maxWork}}
	s.judge(&e)
	r := Ruling{Lookups: e.stillNeeded()}
	r.Decision, r.Notify, _ = e.outcome()
	if all := e.matched.all(); len(all) > 0 {
		r.Matched = make([]uuid.UUID, len(all))
		for i := range all {
			r.Matched[i] = all[i].ID
		}
	}
	return r
}

// Evaluate returns the verdict about a call. Of all policies that match, the strictest
// decides; where none matches, the registry default decides. The work for one call is
// bounded, and a condition beyond the bound cannot be judged. Only require_approval opens
// high risk, and nothing opens an unknown risk.
func (s *Set) Evaluate(c Call) Verdict {
	e := evaluation{call: c, args: document{data: c.Args, left: maxWork}, explains: true}
	s.judge(&e)
	v := e.verdict()
	v.Windows = c.Windows
	return v
}

// judge finds the policies that match the call. Where one blocks it whatever look-ups answer, those
// that depend on one are not among them: they are not judged then, so they are no reason.
func (s *Set) judge(e *evaluation) {
	if s == nil {
		return
	}
	var buf [maxName]byte
	s.index.consider(e, append(append(append(buf[:0], e.call.Verb.Provider...), ':'), e.call.Verb.Verb...))
	if e.blocks() {
		e.matched.drop(func(m matched) bool { return m.depends })
	}
}

// outcome returns the decision of the policies that match, or of the registry. tooMany is how many
// approvals they ask for where those are more than a call can wait for, which blocks it; 0 otherwise.
func (e *evaluation) outcome() (d Decision, notify bool, tooMany int) {
	var strictest Action
	strict, approvals := 0, 0
	all := e.matched.all()
	for i := range all {
		m := &all[i]
		if m.Mode != Enforce {
			continue
		}
		if m.strict > strict {
			strict, strictest = m.strict, m.Action
		}
		if m.Action == ActionRequireApproval {
			approvals++
		}
	}
	d, notify = decide(e.call.Risk, strictest)
	if d == PendingApproval && approvals > MaxRequirements {
		return Block, false, approvals
	}
	return d, notify, 0
}

// verdict returns the decision with its reason.
func (e *evaluation) verdict() Verdict {
	all := e.matched.all()
	if len(all) == 0 {
		v := registryDefault(&e.call)
		v.Lookups = e.needs
		return v
	}
	slices.SortStableFunc(all, func(a, b matched) int { return before(a.policy, b.policy) })
	var room [few]*policy
	enforced := room[:0]
	for i := range all {
		if p := all[i].policy; p.Mode == Enforce {
			enforced = append(enforced, p)
		}
	}
	v := Verdict{Lookups: e.stillNeeded()}
	var tooMany int
	v.Decision, v.Notify, tooMany = e.outcome()
	v.ShadowDecision, _ = decide(e.call.Risk, all[0].Action)
	if v.Decision == PendingApproval {
		v.Requirements = requirements(enforced)
	}
	decided := e.decided(enforced, v.Decision)
	told := e.explainAll(&v, decided)
	switch {
	case len(enforced) == 0:
		v.Reason = registryDefault(&e.call).Reason
	case tooMany > 0:
		v.Reason = tooManyApprovals(tooMany)
	default:
		v.Reason = e.reason(enforced, &told, v.Decision)
	}
	if n := v.Omitted(); n > 0 {
		v.Reason += ". Policies that matched and are not shown: " + strconv.Itoa(n)
	}
	if decided != nil {
		v.PolicyName = decided.Name
	}
	return v
}

// decided returns the policy whose name the verdict reports: the first of the strictest. It
// returns nil where the registry's default decides in spite of the policies.
func (e *evaluation) decided(enforced []*policy, d Decision) *policy {
	if len(enforced) == 0 || (d == Block) != (enforced[0].Action == ActionBlock) {
		return nil
	}
	return enforced[0]
}

// requirements returns the approvals that the enforced policies ask for. Policies come in
// the order of before: the strictest first, so those of require_approval lead.
func requirements(enforced []*policy) []Requirement {
	var list []Requirement
	for _, p := range enforced {
		if p.Action == ActionRequireApproval {
			id := p.ID
			list = append(list, Requirement{PolicyID: &id, Version: p.Version, PolicyName: p.Name, Rule: p.Approval})
		}
	}
	return list
}
