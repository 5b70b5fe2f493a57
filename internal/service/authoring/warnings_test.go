package authoring_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/verb"
)

// An import changed an argument of a verb that a policy names. Governance blocks its calls until a
// user accepts that, so nothing is said of what it would do otherwise.
func TestCallOfAQuarantinedVerbIsWarnedOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, _, err := d.policies.Create(t.Context(), d.who, policy.Draft{Name: "Ask", Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:get_order"}}, Action: "require_approval"})
	require.NoError(t, err)
	warned := func() []string {
		r, err := d.Validate(t.Context(), d.author(), source(call("shop:get_order", `{}`)))
		require.NoError(t, err)
		require.Empty(t, r.Errors)
		return said(r.Warnings)
	}
	require.Equal(t, []string{"/steps/0 governance_hold"}, warned())
	changed := verbOf("get_order", verb.RiskLow, `{"type":"object","properties":{"id":{"type":"string"}}}`)
	d.provider("shop", "none", changed)
	changed.Schema = []byte(`{"type":"object","properties":{"id":{"type":"integer"}}}`)
	d.provider("shop", "none", changed)
	require.Equal(t, []string{"/steps/0/verb quarantined"}, warned())
	_, err = d.catalog.Accept(t.Context(), d.who, verb.Name{Provider: "shop", Verb: "get_order"}, "")
	require.NoError(t, err)
	require.Equal(t, []string{"/steps/0 governance_hold"}, warned())
}

// Policies whose patterns take long are asked for two seconds. What was not judged then is told
// once.
func TestCallsThatPoliciesTakeTooLongForAreWarnedOfOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for i := range 5 {
		_, _, err := d.policies.Create(t.Context(), d.who, policy.Draft{
			Name: fmt.Sprint("Slow ", i), Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:refund"}}, Action: "block",
			Conditions: []governance.Condition{{Field: "args.order_id", Operator: governance.OpMatches, Value: json.RawMessage(`"(?:.{0,900}b)$"`)}},
		})
		require.NoError(t, err)
	}
	steps := []string{call("shop:get_order", "{}")} // no policy is about it
	for i := range 100 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","type":"verb","verb":"shop:refund","args":{"amount":5,"order_id":%q}}`, i, strings.Repeat("a", 2000)))
	}
	r, err := d.Validate(t.Context(), d.author(), source(steps...))
	require.NoError(t, err)
	require.Empty(t, r.Errors)
	require.Len(t, r.Warnings, 1)
	require.Equal(t, "governance_not_judged", r.Warnings[0].Rule)
	require.NotEqual(t, "/steps/0", r.Warnings[0].Path, "the first call was judged")
}
