package catalog_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// A user removes an operation, and a key imports it again. The key can neither leave out a
// mark of a secret nor send an argument to another place.
func TestRemovedOperationComesBackByKeyOnlyAsItWas(t *testing.T) {
	t.Parallel()
	form := func(schema, in string) verb.Definition {
		v := newVerb("pay", "d", verb.RiskHigh)
		v.Schema = json.RawMessage(`{"type":"object","properties":{"pin":` + schema + `}}`)
		v.Plan = json.RawMessage(`{"kind":"http","method":"POST","path":"/pay","params":[{"arg":"pin","in":"` + in + `","style":"simple"}]}`)
		return v
	}
	marked := form(`{"type":"string","x-sensitive":true}`, "header")
	for name, tt := range map[string]struct {
		again verb.Definition
		rule  string // of the refusal, "" where the key may do it
	}{
		"as it was":        {marked, ""},
		"without the mark": {form(`{"type":"string"}`, "header"), "arguments"},
		"in another place": {form(`{"type":"string","x-sensitive":true}`, "query"), "arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			shop := provider("shop", "bearer")
			r.replace(t, r.tenant, shop, marked, newVerb("other", "d", verb.RiskHigh))
			r.replace(t, r.tenant, shop, newVerb("other", "d", verb.RiskHigh))
			key := actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: uuid.New()}
			_, err := r.Replace(t.Context(), key, shop, []verb.Definition{tt.again, newVerb("other", "d", verb.RiskHigh)})
			if tt.rule == "" {
				require.NoError(t, err)
				return
			}
			requireCode(t, err, fault.CodeInsufficientPermissions)
			details := fault.As(err).Details
			require.Len(t, details, 1)
			require.Equal(t, tt.rule, details[0].Rule)
		})
	}
}
