package policy

import (
	"encoding/json"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

// First returns the policy that a new tenant begins with, as it is stored. In a session that has read what
// others than the tenant wrote, people look at each write of medium risk; a call that reaches an address
// which neither the tenant nor the customer has named is one (package dispatch). Verbs of high risk are not
// among them: an approval policy would open those, and without one they stay blocked.
func First() (json.RawMessage, error) {
	return encode(Policy{
		Policy: governance.Policy{
			Name: "Ask before an agent writes on the word of others", Enabled: true, Mode: governance.Enforce,
			Matchers:   []governance.Matcher{{Operation: string(verb.Write), Risk: string(verb.RiskMedium)}},
			Conditions: []governance.Condition{{Field: governance.FieldTainted, Operator: governance.OpEquals, Value: json.RawMessage("true")}},
			Action:     governance.ActionRequireApproval, Approval: governance.DefaultApproval(),
		},
		Description: "A text that an agent reads may tell it what to do. This policy holds writes of medium risk once an agent has read what strangers may have written. Change, disable or delete it as any other.",
	})
}
