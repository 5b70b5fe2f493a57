// Package governance decides whether a call may run. It is pure: what it judges is
// handed to it, and the same call always gets the same decision with the same
// reason. The run domain and the evaluate endpoint use it.
package governance

import (
	"encoding/json"

	"agentruntime/internal/kernel/verb"
)

// Decision is what governance says of a call.
type Decision string

// Decisions (docs/governance.md).
const (
	Allow           Decision = "allow"
	Block           Decision = "block"
	PendingApproval Decision = "pending_approval"
)

// Call is what is judged.
type Call struct {
	Verb      verb.Name
	Domain    string
	Risk      verb.Risk
	Operation verb.Operation
	Args      json.RawMessage
	// Fields knows the arguments that the verb's schema has; nil knows none.
	Fields *Fields
	// Masked returns the arguments as they may be shown. Asked at most once, and only
	// where an explanation needs a value.
	Masked  func() json.RawMessage
	Context Context
}

// Verdict is a decision and its reason, in words for the caller.
type Verdict struct {
	Decision Decision
	Reason   string
	// PolicyName names the policy that decided; "" where the registry default did.
	PolicyName string
	// Notify asks for a notice to the tenant that the call ran.
	Notify bool
	// Requirements are the approvals that a PendingApproval needs, all of them.
	Requirements []Requirement
	// Matches are the policies that matched, the strictest first, in both modes.
	Matches []Match
	// ShadowDecision is what the decision would be if shadow policies were enforced.
	ShadowDecision Decision
}

// ApprovalRequired reports whether a human has to approve before the call runs.
func (v Verdict) ApprovalRequired() bool { return v.Decision == PendingApproval }

// Set is the policies of one tenant, ready to judge. It is immutable and safe for
// concurrent use; nil has no policies.
type Set struct {
	version int64
	index   index
}

// Compile prepares policies; disabled ones are left out. One that cannot be read is
// not left out: it blocks every call that it might have been about.
func Compile(version int64, policies []Policy) *Set {
	s := &Set{version: version}
	for _, p := range policies {
		if p.Enabled {
			s.index.add(compilePolicy(Normalize(p)))
		}
	}
	return s
}

// Version is that of the tenant's policies as a whole; 0 for none.
func (s *Set) Version() int64 {
	if s == nil {
		return 0
	}
	return s.version
}

// maxName is the longest provider:verb_name that needs no memory of its own.
const maxName = 128

// Evaluate judges a call: of all policies that match it the strictest decides, and the
// registry default where none does. High risk is opened by require_approval alone, an
// unknown risk by nothing.
func (s *Set) Evaluate(c Call) Verdict {
	if s == nil {
		return registryDefault(&c)
	}
	var buf [maxName]byte
	name := append(append(append(buf[:0], c.Verb.Provider...), ':'), c.Verb.Verb...)
	e := evaluation{call: c, args: document{data: c.Args}}
	s.index.consider(&e, name)
	if len(e.matched) == 0 {
		return registryDefault(&c)
	}
	return e.verdict()
}

// registryDefault applies the default of the verb's risk level (docs/governance.md): low
// runs, medium runs and notifies, high is blocked until an approval gate is
// configured. A level it does not know is blocked.
func registryDefault(c *Call) Verdict {
	v := Verdict{}
	v.Decision, v.Notify = decide(c.Risk, "")
	v.ShadowDecision = v.Decision
	switch c.Risk {
	case verb.RiskLow:
		v.Reason = "low risk: allowed by the registry default"
	case verb.RiskMedium:
		v.Reason = "medium risk: allowed and notified by the registry default"
	case verb.RiskHigh:
		v.Reason = c.Verb.String() + " is high risk and no approval gate configured: a high-risk verb is blocked until a policy requires approval for it"
	default:
		v.Reason = c.Verb.String() + " has an unknown risk level: blocked"
	}
	return v
}

// decide is the table of decisions: what the strictest action of those that match, ""
// for none, comes to at a risk level.
func decide(risk verb.Risk, strictest Action) (d Decision, notify bool) {
	switch {
	case strictest == ActionBlock:
		return Block, false
	case risk != verb.RiskLow && risk != verb.RiskMedium && risk != verb.RiskHigh:
		return Block, false
	case strictest == ActionRequireApproval:
		return PendingApproval, false
	case risk == verb.RiskHigh:
		return Block, false
	case strictest == ActionNotify:
		return Allow, true
	case strictest == ActionAllow:
		return Allow, false
	}
	return Allow, risk == verb.RiskMedium
}
