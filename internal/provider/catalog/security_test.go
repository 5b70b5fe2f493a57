package catalog

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

func keyIn(scheme, name string) verb.Scheme {
	return verb.Scheme{Name: scheme, Type: "api_key", In: "header", Wire: name}
}

// secured is a verb whose calls present what the security says; nil is a plan that says none.
func secured(s verb.Security) verb.Definition {
	return planned(httpplan.Plan{PlanHead: verb.PlanHead{Security: s}})
}

// What a call presents is the user's to change, also for a single operation.
func TestImportByKeyChangesNoSecurity(t *testing.T) {
	t.Parallel()
	k1, k2 := keyIn("k1", "X-K1"), keyIn("k2", "X-K2")
	one := verb.Security{{k1}}
	for name, tt := range map[string]struct {
		was, now verb.Security
		removed  bool
		want     []string
	}{
		"nothing":                    {one, one, false, nil},
		"another scheme":             {one, verb.Security{{k2}}, false, []string{"auth"}},
		"a second scheme":            {one, verb.Security{{k1, k2}}, false, []string{"auth"}},
		"another way":                {one, verb.Security{{k1}, {k2}}, false, []string{"auth"}},
		"public":                     {one, verb.Security{{}}, false, []string{"auth"}},
		"another name of the scheme": {one, verb.Security{{keyIn("k", "X-K1")}}, false, []string{"auth"}},
		"first said by a plan":       {nil, one, false, nil},
		"first said, and another":    {nil, verb.Security{{k2}}, false, []string{"auth"}},
		"again":                      {one, one, true, nil},
		"again with another":         {one, verb.Security{{k2}}, true, []string{"arguments"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := secured(tt.was)
			known := known{exists: true, baseURL: shopURL, domain: "shop", auth: json.RawMessage(`{"type":"api_key","in":"header","name":"X-K1"}`)}
			k := knew(before, tt.removed)
			k.security, k.form = tt.was, formOf(before.Schema, before.Plan)
			if tt.removed {
				k.security = nil
			}
			known.verbs = []knownVerb{k}
			var got []string
			for _, c := range compare(known, Provider{BaseURL: shopURL, Domain: "shop", Auth: known.auth}, []verb.Definition{secured(tt.now)}).found {
				got = append(got, c.What)
				require.True(t, c.needsUser)
				require.NotEmpty(t, c.message(would))
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// A key could otherwise have a secret sent where logs of the provider keep it.
func TestImportByKeySendsSecretsToNoNewPlace(t *testing.T) {
	t.Parallel()
	was := known{exists: true, baseURL: shopURL, domain: "shop", auth: json.RawMessage(`{"type":"bearer"}`)}
	for name, tt := range map[string]struct {
		security verb.Security
		want     []string
	}{
		"as the provider":     {verb.Security{{{Name: "token", Type: "bearer"}}}, nil},
		"public":              {verb.Security{{}}, nil},
		"in another place":    {verb.Security{{keyIn("k1", "X-K1")}}, []string{"auth"}},
		"also in another one": {verb.Security{{{Type: "bearer"}}, {keyIn("k1", "X-K1")}}, []string{"auth"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range compare(was, Provider{BaseURL: shopURL, Domain: "shop", Auth: was.auth}, []verb.Definition{secured(tt.security)}).found {
				got = append(got, c.What)
				require.NotEmpty(t, c.message(would))
			}
			require.Equal(t, tt.want, got)
		})
	}
}
