package governance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
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
