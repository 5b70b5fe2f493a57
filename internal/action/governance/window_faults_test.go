package governance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func TestFaultsOfAWindowAreToldTogether(t *testing.T) {
	t.Parallel()
	one := windowed(governance.Window{
		By: "customer.tags", Per: "1s", Count: true, Sum: "amount", Matching: governance.MatchingAny(governance.Matcher{Type: "verb", Value: "Shop"}),
	}, "like", "true")
	one.Field = "args.amount"
	require.Equal(t, []string{
		"/conditions/0/operator", "/conditions/0/window", "/conditions/0/window", "/conditions/0/window/by", "/conditions/0/window/matching/0/value", "/conditions/0/window/per",
	}, paths(governance.CheckPolicy(policy("p", block, one))))

	other := windowed(governance.Window{By: "args.", Per: "1h", Sum: "amount"}, "greater", `"5"`)
	require.Equal(t, []string{"/conditions/0/value", "/conditions/0/window/by", "/conditions/0/window/sum"}, paths(governance.CheckPolicy(policy("p", block, other))))
}
