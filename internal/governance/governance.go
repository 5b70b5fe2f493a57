// Package governance decides whether a call may run. It is pure: what it judges is
// handed to it, and the same call always gets the same decision with the same
// reason. The run domain and the evaluate endpoint use it.
package governance

import (
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
	Risk      verb.Risk
	Operation verb.Operation
}

// Verdict is a decision and its reason, in words for the caller.
type Verdict struct {
	Decision Decision
	Reason   string
	// PolicyName names the policy that decided; "" where the registry default did.
	PolicyName string
	// Notify asks for a notice to the tenant that the call ran.
	Notify bool
}

// ApprovalRequired reports whether a human has to approve before the call runs.
func (v Verdict) ApprovalRequired() bool { return v.Decision == PendingApproval }

// Evaluate applies the registry default of the verb's risk level (spec part 1):
// low runs, medium runs and notifies, high is blocked until an approval gate is
// configured. A level it does not know is blocked.
func Evaluate(c Call) Verdict {
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
