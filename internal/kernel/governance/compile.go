package governance

import (
	"cmp"
	"slices"
	"strings"
)

// policy is a Policy that is ready to judge calls.
type policy struct {
	Policy
	strict     int  // of its action, see strictness
	always     bool // it may be about any call
	conditions []*condition
	// broken: the stored policy cannot be read. It blocks every call that it may be about.
	broken bool
}

// strictness orders actions; 0 is none.
func strictness(a Action) int {
	return 1 + slices.Index([]Action{ActionAllow, ActionNotify, ActionRequireApproval, ActionBlock}, a)
}

// compilePolicy reads a normalized policy.
func compilePolicy(source Policy) *policy {
	p := &policy{Policy: source, strict: strictness(source.Action)}
	p.broken = p.strict == 0
	switch p.Mode {
	case Enforce, Shadow:
	case "":
		p.Mode = Enforce
	default:
		p.Mode, p.broken = Enforce, true
	}
	p.always = len(p.Matchers) == 0
	for _, m := range p.Matchers {
		if !m.readable() {
			p.always, p.broken = true, true
		}
		p.always = p.always || (m.Type == MatchVerb && everything(m.Value))
	}
	for _, source := range p.Conditions {
		c, problem := compileCondition(source)
		if problem != nil {
			p.broken = true
			break
		}
		p.conditions = append(p.conditions, c)
	}
	if p.broken {
		p.Action, p.strict, p.conditions = ActionBlock, strictness(ActionBlock), nil
	}
	return p
}

// tightens reports whether a doubt about the call counts as a match.
func (p *policy) tightens() bool { return p.Action != ActionAllow }

// consider adds the policy to those that match, where all its conditions are met.
func (e *evaluation) consider(p *policy) {
	strict := p.tightens()
	for _, c := range p.conditions {
		if ok, _ := c.isMet(e, strict); !ok {
			return
		}
	}
	e.matched = append(e.matched, p)
}

// before orders policies: the strictest first, enforced before shadow, then by priority,
// name and id. So the order in which they are stored does not matter.
func before(p, q *policy) int {
	return cmp.Or(
		cmp.Compare(q.strict, p.strict),
		cmp.Compare(p.Mode, q.Mode), // enforce before shadow
		cmp.Compare(q.Priority, p.Priority),
		strings.Compare(p.Name, q.Name),
		slices.Compare(p.ID[:], q.ID[:]),
		cmp.Compare(q.Version, p.Version),
	)
}

// verdict returns the decision of the policies that match, of which there is at least one.
func (e *evaluation) verdict() Verdict {
	slices.SortStableFunc(e.matched, before)
	var enforced []*policy
	for _, p := range e.matched {
		if p.Mode == Enforce {
			enforced = append(enforced, p)
		}
	}
	v := Verdict{}
	if len(enforced) == 0 {
		v = registryDefault(&e.call)
	} else {
		v.Decision, v.Notify = decide(e.call.Risk, enforced[0].Action)
	}
	v.ShadowDecision, _ = decide(e.call.Risk, e.matched[0].Action)
	decided := e.decided(enforced, v.Decision)
	v.Matches = make([]Match, len(e.matched))
	secret := make([]bool, 0, 8)
	for i, p := range e.matched {
		hidden := e.explain(&v.Matches[i], p)
		if p == decided {
			v.Matches[i].Decided, secret = true, hidden
		}
	}
	if v.Decision == PendingApproval {
		v.Requirements = requirements(enforced)
	}
	if len(enforced) > 0 {
		v.Reason = e.reason(enforced, decided, v.Decision, secret)
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
