package governance_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

func TestNamedVerbsAreThoseWithoutAGlob(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{"verbMatchers":[{"type":"verb","value":"shop:refund"},{"type":"verb","value":"shop:*"},{"type":"provider","value":"shop:x"}]}`: "shop:refund",
		`{"verbMatchers":[{"verb":"shop:refund","risk_level":"high"}],"match":{"all":[{"verb":"a:b"}],"except":[{"verb":"c:d"}]}}`:       "shop:refund a:b c:d",
		`{"verbMatchers":[],"conditions":[{"field":"args.verb","value":"shop:refund"}],"name":"shop:refund"}`:                            "",
		`{"verbMatchers":null}`: "",
		`nothing`:               "",
	} {
		var names []string
		for _, n := range governance.NamedVerbs(json.RawMessage(document)) {
			names = append(names, n.String())
		}
		require.ElementsMatch(t, strings.Fields(want), names, document)
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
