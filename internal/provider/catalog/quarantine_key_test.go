package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/verb"
)

// A key that may change policies and providers neither avoids a quarantine nor ends it by what names
// the verb. It ends one as every import does: with the accepted form.
func TestQuarantineOutlastsWhatAKeyDoesToThePolicies(t *testing.T) {
	t.Parallel()
	const disable, remove = "UPDATE policies SET enabled = false WHERE tenant_id = $1", "UPDATE policies SET deleted_at = now() WHERE tenant_id = $1"
	for name, tt := range map[string]struct {
		before, after string // the first import of the change
		byUser        bool   // the second one
		want          int    // quarantined after it
	}{
		"a disabled policy names its verbs":       {disable, "", false, 1},
		"disabled after the change":               {"", disable, false, 1},
		"disabled after it, and a user imports":   {"", disable, true, 1},
		"removed after the change":                {"", remove, false, 1},
		"removed after it, and a user imports":    {"", remove, true, 0},
		"removed before the change":               {remove, "", false, 0},
		"nothing happens to it, and a key again":  {"", "", false, 1},
		"nothing happens to it, and a user again": {"", "", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			key := r.key()
			imports := func(who actor.Actor, kind string) int {
				p, err := r.Replace(t.Context(), who, payShop, payVerbs(2, kind))
				require.NoError(t, err)
				return p.Notes.QuarantinedTotal
			}
			change := func(statement string) {
				if statement != "" {
					_, err := r.admin.Exec(t.Context(), statement, r.tenant)
					require.NoError(t, err)
				}
			}
			require.Zero(t, imports(by(r.tenant), "number"))
			r.naming(t, 1)
			change(tt.before)
			first := imports(key, "string")
			change(tt.after)
			again := key
			if tt.byUser {
				again = by(r.tenant)
			}
			require.Equal(t, tt.want, imports(again, "string"))
			if tt.after != "" || tt.before != remove {
				require.Equal(t, 1, first)
			}
			if tt.want == 1 {
				m, err := r.meta(t, r.tenant, verb.Name{Provider: "shop", Verb: "pay_0000"})
				require.NoError(t, err)
				require.Equal(t, 1, m.Quarantine.NamedByTotal, "what named it is told")
			}
			require.Zero(t, imports(key, "number"), "the accepted form ends it")
		})
	}
}
