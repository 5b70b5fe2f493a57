package catalog_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// A change of what governs calls, or of what tenants may name exactly, is stored where the operator
// accepts it, and nothing of it otherwise.
func TestPlatformImportRefusesChangesThatNobodyAccepted(t *testing.T) {
	t.Parallel()
	schema := func(properties, required string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + required + `]}`)
	}
	const amount, note = `"amount":{"type":"integer"}`, `"note":{"type":"string"}`
	base := provider("crm", "bearer")
	pay := newVerb("pay", "money", verb.RiskMedium)
	pay.Plan, pay.Schema = json.RawMessage(`{"method":"POST","path":"/pay","body":{"kind":"json","type":"application/json"}}`), schema(amount, `"amount"`)
	for name, tt := range map[string]struct {
		change func(*catalog.Provider, *verb.Definition)
		what   string // "" where nothing has to be accepted
	}{
		"nothing":           {func(*catalog.Provider, *verb.Definition) {}, ""},
		"description":       {func(_ *catalog.Provider, v *verb.Definition) { v.Description = "Other." }, ""},
		"optional argument": {func(_ *catalog.Provider, v *verb.Definition) { v.Schema = schema(amount+","+note, `"amount"`) }, ""},
		"higher risk":       {func(_ *catalog.Provider, v *verb.Definition) { v.Risk = verb.RiskHigh }, "risk_level"},
		"lower risk":        {func(_ *catalog.Provider, v *verb.Definition) { v.Risk = verb.RiskLow }, "risk_level"},
		"required argument": {func(_ *catalog.Provider, v *verb.Definition) { v.Schema = schema(amount+","+note, `"amount","note"`) }, "argument_required"},
		"another type": {func(_ *catalog.Provider, v *verb.Definition) {
			v.Schema = schema(`"amount":{"type":"string"}`, `"amount"`)
		}, "argument_retyped"},
		"no argument":            {func(_ *catalog.Provider, v *verb.Definition) { v.Schema = schema(note, "") }, "argument"},
		"another base URL":       {func(p *catalog.Provider, _ *verb.Definition) { p.BaseURL = "https://other.test" }, "base_url"},
		"another name":           {func(_ *catalog.Provider, v *verb.Definition) { v.Name = "pay_now" }, "renamed"},
		"another operation type": {func(_ *catalog.Provider, v *verb.Definition) { v.Operation = verb.Read }, "operation_type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.operator(t).Platform
			quiet := pay // what is new needs nothing, whatever its risk
			quiet.Name, quiet.Plan, quiet.Risk = "look", json.RawMessage(`{"method":"POST","path":"/look"}`), verb.RiskLow
			_, err := p.Import(t.Context(), catalog.Import{Provider: base, Verbs: []verb.Definition{pay, quiet}}, false)
			require.NoError(t, err)
			r.enable(t, r.tenant, "crm")
			before := r.pageOf(t, r.tenant, catalog.Filter{})

			next, v := base, pay
			tt.change(&next, &v)
			in := catalog.Import{Provider: next, Verbs: []verb.Definition{v, quiet}}
			would, err := p.Preview(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, before, r.pageOf(t, r.tenant, catalog.Filter{}), "a preview stores nothing")
			if tt.what == "" {
				_, err = p.Import(t.Context(), in, false)
				require.NoError(t, err)
				return
			}
			told, err := p.Import(t.Context(), in, false)
			requireCode(t, err, fault.CodeConflict)
			require.Equal(t, would.Notes, told.Notes)
			require.Equal(t, tt.what, told.Notes.Changes[0].What)
			require.True(t, told.Notes.Changes[0].NeedsUser)
			require.Equal(t, before, r.pageOf(t, r.tenant, catalog.Filter{}), "a refused import stores nothing")

			stored, err := p.Import(t.Context(), in, true)
			require.NoError(t, err)
			require.Len(t, stored.Notes.Changes, len(told.Notes.Changes))
			for _, c := range stored.Notes.Changes {
				require.NotRegexp(t, `would|the import changes`, c.Message, "it is stored")
			}
			same, err := p.Import(t.Context(), in, false)
			require.NoError(t, err, "what is stored is accepted")
			require.Zero(t, same.Notes.ChangesTotal)
		})
	}
}
