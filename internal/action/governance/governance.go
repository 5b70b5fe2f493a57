// Package governance decides whether a call may run, and who may approve it. The run
// domain, the policies and the approvals use it. It does no I/O: callers pass in what it
// judges. The same call always gets the same decision with the same reason.
package governance

import (
	"bytes"
	"encoding/json"
	"slices"

	"agentruntime/internal/base/verb"
)

// Decision is what governance decides about a call. Rows and audit records store it as text.
type Decision string

// Decisions (docs/use/governance.md).
const (
	Allow           Decision = "allow"
	Block           Decision = "block"
	PendingApproval Decision = "pending_approval"
)

// Call is a call to be judged.
type Call struct {
	Verb      verb.Name
	Domain    string
	Risk      verb.Risk
	Operation verb.Operation
	Args      json.RawMessage
	// Fields knows the arguments that the verb's schema has; nil knows none.
	Fields *Fields
	// Masked returns the arguments as they may be shown. It is called at most once, and
	// only where an explanation needs a value.
	Masked  func() json.RawMessage
	Context Context
	// Done is closed when nobody waits for the verdict: it is then made without further work,
	// on the strict side, and worth nothing. nil is never closed.
	Done <-chan struct{}
	// Windows are those of Set.Windows with what was read for them; nil leaves conditions on
	// windows in doubt.
	Windows *Windows
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
	// Matches are the policies that matched, the strictest first, in both modes. Shown has
	// those of them whose conditions are explained.
	Matches []Match
	// ShadowDecision is what the decision would be if shadow policies were enforced.
	ShadowDecision Decision
	// Windows are those of the call, nil for none.
	Windows *Windows
	// Lookups are the look-ups to be made before the call is judged again with their answers.
	// Without them the verdict is that of the strict side.
	Lookups []LookupCall

	unexplained []bool // by match, see Shown
}

// ApprovalRequired reports whether people must approve before the call runs.
func (v Verdict) ApprovalRequired() bool { return v.Decision == PendingApproval }

// Set is the policies of one tenant, ready to judge. It is immutable and safe for
// concurrent use; nil has no policies.
type Set struct {
	version int64
	index   index
	size    int
	windows []boundWindow // of all policies, one for each id
	// guards: an enforced policy requires approval, or blocks, by what an agent has read.
	guards bool
}

// Compile returns the policies ready to judge, without those that are disabled. It keeps a
// policy that cannot be read: that one blocks every call that it may be about.
func Compile(version int64, policies []Policy) *Set {
	s := &Set{version: version}
	// The same policies are judged in the same order, so that the same one is the first for
	// which no work is left.
	policies = slices.Clone(policies)
	slices.SortStableFunc(policies, func(a, b Policy) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	var reads sharing
	for _, p := range policies {
		if p.Enabled {
			compiled := compilePolicy(Normalize(p))
			reads.share(compiled)
			s.index.add(compiled)
			s.addWindows(compiled)
			s.size += compiled.size()
			s.guards = s.guards || compiled.guards()
		}
	}
	reads.finish()
	return s
}

// HoldsTainted reports whether a policy that is enforced holds or blocks calls by what an agent has read.
func (s *Set) HoldsTainted() bool { return s != nil && s.guards }

// Size returns about how many bytes of memory the set takes; 0 for none.
func (s *Set) Size() int {
	if s == nil {
		return 0
	}
	return s.size
}

// Version returns the version of the tenant's policies as a whole; 0 for none.
func (s *Set) Version() int64 {
	if s == nil {
		return 0
	}
	return s.version
}

// maxName is the longest provider:verb_name that needs no memory of its own.
const maxName = 128

// registryDefault returns the default for the verb's risk level (docs/use/governance.md). Low
// risk runs, and medium risk runs with a notice. High risk is blocked until a policy
// requires approval. An unknown level is blocked.
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
		v.Reason = c.Verb.Provider + ":" + c.Verb.Verb + " is high risk and no approval gate configured: a high-risk verb is blocked until a policy requires approval for it"
	default:
		v.Reason = c.Verb.String() + " has an unknown risk level: blocked"
	}
	return v
}

// decide is the table of decisions, by the risk level and the strictest action of the
// policies that match ("" for none).
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
