package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

func TestTheRegistryDefaults(t *testing.T) {
	t.Parallel()
	for risk, want := range map[verb.Risk]governance.Verdict{
		verb.RiskLow:    {Decision: governance.Allow},
		verb.RiskMedium: {Decision: governance.Allow, Notify: true},
		verb.RiskHigh:   {Decision: governance.Block},
		"":              {Decision: governance.Block},
		"LOW":           {Decision: governance.Block},
		"none":          {Decision: governance.Block},
	} {
		for _, op := range []verb.Operation{verb.Read, verb.Write} {
			var none *governance.Set
			got := none.Evaluate(governance.Call{Verb: verb.Name{Provider: "p", Verb: "v"}, Risk: risk, Operation: op})
			require.Equal(t, want.Decision, got.Decision, "%q", risk)
			require.Equal(t, want.Notify, got.Notify, "%q", risk)
			require.NotEmpty(t, got.Reason)
			require.False(t, got.ApprovalRequired())
		}
	}
}

// A set says whether an enforced policy stops calls by what an agent has read.
func TestSetHoldsTaintedWhereAPolicyAsksForIt(t *testing.T) {
	t.Parallel()
	tainted := governance.Condition{Field: governance.FieldTainted, Operator: governance.OpEquals, Value: json.RawMessage("true")}
	for name, c := range map[string]struct {
		policy governance.Policy
		want   bool
	}{
		"holds":     {governance.Policy{Enabled: true, Mode: governance.Enforce, Action: governance.ActionRequireApproval, Conditions: []governance.Condition{tainted}}, true},
		"blocks":    {governance.Policy{Enabled: true, Mode: governance.Enforce, Action: governance.ActionBlock, Conditions: []governance.Condition{{Any: []governance.Condition{tainted}}}}, true},
		"notifies":  {governance.Policy{Enabled: true, Mode: governance.Enforce, Action: governance.ActionNotify, Conditions: []governance.Condition{tainted}}, false},
		"in shadow": {governance.Policy{Enabled: true, Mode: governance.Shadow, Action: governance.ActionBlock, Conditions: []governance.Condition{tainted}}, false},
		"disabled":  {governance.Policy{Mode: governance.Enforce, Action: governance.ActionBlock, Conditions: []governance.Condition{tainted}}, false},
		"does not":  {governance.Policy{Enabled: true, Mode: governance.Enforce, Action: governance.ActionBlock}, false},
	} {
		require.Equal(t, c.want, governance.Compile(1, []governance.Policy{c.policy}).HoldsTainted(), name)
	}
	require.False(t, (*governance.Set)(nil).HoldsTainted())
}
