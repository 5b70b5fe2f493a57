package governance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
)

func TestNamedVerbsAreThoseWithoutAGlob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy governance.Policy
		want   string
	}{
		"matchers with types": {governance.Policy{Matchers: []governance.Matcher{
			{Type: "verb", Value: "shop:refund"}, {Type: "Verb", Value: "shop:pay"}, {Type: "verb", Value: "shop:*"}, {Type: "provider", Value: "shop:x"},
		}}, "shop:refund shop:pay"},
		"all and except": {governance.Policy{
			Matchers: []governance.Matcher{{Verb: "shop:refund", Risk: "high"}},
			Match:    governance.Narrowing{All: []governance.Matcher{{Verb: "a:b"}}, Except: []governance.Matcher{{Verb: "c:d"}}},
		}, "shop:refund a:b c:d"},
		"windows, in groups too": {governance.Policy{Conditions: []governance.Condition{
			{Window: &governance.Window{Matching: governance.MatchingAny(governance.Matcher{Verb: "a:b"}, governance.Matcher{Verb: "a:*"})}},
			{Any: []governance.Condition{{Not: &governance.Condition{Window: &governance.Window{Matching: governance.MatchingAny(governance.Matcher{Type: "verb", Value: "c:d"})}}}}},
		}}, "a:b c:d"},
		"look-ups":          {governance.Policy{Lookups: []governance.Lookup{{Name: "order", Verb: "shop:get_order"}}}, "shop:get_order"},
		"values and a name": {governance.Policy{Name: "shop:refund", Conditions: []governance.Condition{{Field: "args.verb", Value: json.RawMessage(`"shop:refund"`)}}}, ""},
		"nothing":           {governance.Policy{}, ""},
	} {
		var names []string
		for _, n := range tc.policy.NamedVerbs() {
			names = append(names, n.String())
		}
		require.ElementsMatch(t, strings.Fields(tc.want), names, name)
	}
}

func TestQuarantineVerdictSaysWhatChangedAndWhatToDo(t *testing.T) {
	t.Parallel()
	v := governance.QuarantineVerdict(verb.Name{Provider: "shop", Verb: "refund"}, verb.Quarantine{ChangesTotal: 6, Changes: []verb.FormChange{
		{What: "risk_level", Before: "low", After: "high"},
		{What: "argument_required", Pointer: "/reason", After: "required string"},
		{What: "argument_removed", Pointer: "/note", Before: "string"},
		{What: "argument_retyped", Pointer: "/amount", Before: "number", After: "string"},
	}})
	require.Equal(t, governance.Block, v.Decision)
	require.Equal(t, "quarantined: an import changed shop:refund: the risk_level was low and is high; the argument /reason is new (required string); "+
		"the argument /note (string) is gone; 3 more changes. An owner or admin can accept it with POST /v1/providers/shop/verbs/refund/accept. "+
		"Then make the call again; the same id may be used.", v.Reason)
}
