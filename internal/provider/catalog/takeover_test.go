package catalog_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

func (r *rig) key() actor.Actor {
	return actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: uuid.New()}
}

// What a tenant wrote for a provider of the platform names its slug, also after the operator removed
// it. A key puts no other server in its place, and a user does.
func TestKeyTakesNoSlugOfAPlatformProviderThatTheTenantChose(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		enables  string // the tenant that enables it
		disables bool
		removed  bool
		refused  bool
	}{
		"offered, and never enabled":             {refused: true},
		"enabled, and offered":                   {enables: "own", refused: true},
		"enabled, and removed":                   {enables: "own", removed: true, refused: true},
		"disabled, and removed":                  {enables: "own", disables: true, removed: true, refused: true},
		"enabled by another tenant, and removed": {enables: "other", removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.offer(t)
			if tenant, enables := map[string]uuid.UUID{"own": r.tenant, "other": r.other}[tt.enables]; enables {
				r.enable(t, tenant, "crm")
			}
			if tt.disables {
				_, err := r.Disable(t.Context(), by(r.tenant), "crm")
				require.NoError(t, err)
			}
			if tt.removed {
				require.NoError(t, p.Delete(t.Context(), "crm"))
			}
			_, err := r.Replace(t.Context(), r.key(), provider("crm", "none"), []verb.Definition{newVerb("find", "contacts", verb.RiskHigh)})
			if !tt.refused {
				require.NoError(t, err)
				return
			}
			requireCode(t, err, fault.CodeInsufficientPermissions)
			details := fault.As(err).Details
			require.Len(t, details, 1)
			require.Equal(t, "platform", details[0].Rule)
			require.Equal(t, "/slug", details[0].Path)
			p2 := r.replace(t, r.tenant, provider("crm", "none"), newVerb("find", "contacts", verb.RiskHigh))
			require.Equal(t, 1, p2.Notes.ChangesTotal, "a user may")
			require.Contains(t, p2.Notes.Changes[0].Message, "The import took its place.")
			require.Contains(t, details[0].Message, "The import would take its place.")
			_, err = r.Replace(t.Context(), r.key(), provider("crm", "none"), []verb.Definition{newVerb("find", "contacts", verb.RiskHigh)})
			require.NoError(t, err, "it is the tenant's own now")
		})
	}
}

// A user's import in the place of the platform's provider is compared with the verbs that something
// names.
func TestImportInThePlaceOfThePlatformsQuarantinesNamedVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.naming(t, 2)
	p := r.operator(t)
	_, err := p.Replace(t.Context(), payShop, payVerbs(3, "number"))
	require.NoError(t, err)
	r.enable(t, r.tenant, "shop")

	own := r.replace(t, r.tenant, payShop, payVerbs(3, "string")[1:]...)
	require.Equal(t, 1, own.Notes.QuarantinedTotal, "two are named, of which the import has one")
	require.Equal(t, "pay_0001", own.Notes.Quarantined[0].Verb)

	// The accepted form stays: neither a second import nor one that brings back a verb hides the change.
	own = r.replace(t, r.tenant, payShop, payVerbs(3, "string")...)
	require.Equal(t, 2, own.Notes.QuarantinedTotal)
	own = r.replace(t, r.tenant, payShop, payVerbs(3, "number")...)
	require.Zero(t, own.Notes.QuarantinedTotal, "the platform's form is restored")
}
