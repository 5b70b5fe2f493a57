package openapi_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/schemagraph"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/toolrules"
)

// requireTools checks the tool of every verb against the rules of every maker, in full and within the
// budget that compact=true has, and returns how many did not fit it.
func requireTools(t *testing.T, slug string, verbs []verb.Definition) (over int) {
	t.Helper()
	const budget = 16 << 10
	for _, v := range verbs {
		of := tooldef.Verb{Name: verb.Name{Provider: slug, Verb: v.Name}, Description: v.Description, Operation: v.Operation, Idempotency: v.Idempotency, Risk: v.Risk}
		for _, format := range tooldef.Formats() {
			for _, most := range []int{0, budget} {
				p, err := tooldef.ParametersOf(v.Schema, format, most)
				require.NoError(t, err)
				raw, err := json.Marshal(of.Tool(format, p))
				require.NoError(t, err)
				if found := toolrules.Violations(format, raw); len(found) > 0 {
					require.Fail(t, "a maker refuses a tool", "%s for %s within %d: %v", v.Name, format, most, found[0])
				}
				if most > 0 && len(p.Schema) > most {
					over++
				}
			}
		}
		back, err := tooldef.Back(schemagraph.Read(v.Schema), json.RawMessage(`{}`))
		require.NoError(t, err)
		require.JSONEq(t, `{}`, string(back))
	}
	return over
}

// A fourth of the verbs, because the race detector makes this slow. `make corpus` takes all of 300 documents.
func TestStripesVerbsAreToolsOfEveryMaker(t *testing.T) {
	t.Parallel()
	_, im := stripe(t)
	var some []verb.Definition
	for i := 0; i < len(im.Verbs); i += 4 {
		some = append(some, im.Verbs[i])
	}
	require.Greater(t, len(some), 100)
	require.Zero(t, requireTools(t, "stripe", some))
}
