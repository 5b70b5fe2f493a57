package catalog_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/provider/catalog"
)

// Every tenant sees what the platform offers, and whether it has enabled it. An own provider takes
// the place of the platform's, whatever was chosen.
func TestProvidersListWhatThePlatformOffers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	r.enable(t, r.tenant, "crm", "open")
	r.replace(t, r.tenant, provider("open", "bearer"))
	r.replace(t, r.tenant, provider("shop", "bearer"))
	r.connect(t, r.other, "crm", "active", "")
	yes, no := true, false
	const enabled, offered, own = "enabled", "offered", "own"
	for name, tt := range map[string]struct {
		tenant uuid.UUID
		filter *bool
		want   map[string]string
	}{
		"all":                      {r.tenant, nil, map[string]string{"crm": enabled, "open": own, "shop": own}},
		"enabled":                  {r.tenant, &yes, map[string]string{"crm": enabled, "open": own, "shop": own}},
		"not enabled":              {r.tenant, &no, map[string]string{}},
		"all of another":           {r.other, nil, map[string]string{"crm": offered, "open": offered}},
		"enabled by another":       {r.other, &yes, map[string]string{}},
		"not enabled by the other": {r.other, &no, map[string]string{"crm": offered, "open": offered}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for after, more := "", true; more; {
				var page []catalog.Provider
				var err error
				page, more, err = r.Providers(t.Context(), tt.tenant, tt.filter, after, 1)
				require.NoError(t, err)
				for _, p := range page {
					require.Greater(t, p.Slug, after)
					after = p.Slug
					got[p.Slug] = map[bool]map[bool]string{true: {true: enabled, false: offered}, false: {true: own}}[p.Shared][p.Enabled]
					one, err := r.Provider(t.Context(), tt.tenant, p.Slug)
					require.NoError(t, err)
					require.Equal(t, []bool{p.Shared, p.Enabled, p.Connected}, []bool{one.Shared, one.Enabled, one.Connected})
					require.Equal(t, p.Slug == "open" && p.Shared || p.Slug == "crm" && tt.tenant == r.other, p.Connected, p.Slug)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// A choice stays while it has no effect: where a provider of the tenant's own hides the platform's,
// and where the platform no longer offers it.
func TestChoiceOfAProviderStaysWithoutEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.offer(t)
	r.replace(t, r.tenant, provider("open", "bearer"))
	o, err := r.Enable(t.Context(), by(r.tenant), "open")
	require.NoError(t, err)
	require.Equal(t, catalog.Offer{Slug: "open", Offered: true, Enabled: true, Hidden: true}, o)

	require.NoError(t, p.Delete(t.Context(), "open"))
	o, err = r.Disable(t.Context(), by(r.tenant), "open")
	require.NoError(t, err)
	require.Equal(t, catalog.Offer{Slug: "open", Hidden: true}, o)
	_, err = r.Disable(t.Context(), by(r.tenant), "open")
	requireCode(t, err, fault.CodeProviderNotFound)
}

// A provider of the tenant's own is not enabled: the refusal says whose it is, and what to do. That of
// another tenant is like none.
func TestOwnProviderIsNotEnabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.replace(t, r.tenant, provider("shop", "none"))
	r.replace(t, r.other, provider("theirs", "none"))
	refusal := func(slug string) string {
		_, err := r.Enable(t.Context(), by(r.tenant), slug)
		requireCode(t, err, fault.CodeProviderNotFound)
		return fault.As(err).Message
	}
	require.Contains(t, refusal("shop"), "The one under this slug is your own")
	require.Contains(t, refusal("shop"), "DELETE /v1/providers/shop")
	require.Equal(t, refusal("none"), refusal("theirs"))
}

// The list reads little beside its page, however much the platform offers.
func TestProvidersReadAPageOfALargePlatform(t *testing.T) {
	t.Parallel()
	const offered, most = 20_000, 700 // the page has 101 rows, each with three look-ups
	r := newRig(t)
	r.offer(t)
	// Each row would close a gate, and the transaction has room for some thousand locks.
	_, err := r.admin.Exec(t.Context(), "SET session_replication_role = replica")
	require.NoError(t, err)
	_, err = r.admin.Exec(t.Context(), `INSERT INTO platform_providers SELECT (p).* FROM (
		SELECT jsonb_populate_record(p, jsonb_build_object('slug', 'm' || lpad(n::text, 6, '0'), 'name', repeat('n', 1000))) AS p
		  FROM platform_providers p, generate_series(1, $1::integer) n WHERE p.slug = 'crm') made`, offered)
	require.NoError(t, err)
	_, err = r.admin.Exec(t.Context(), `INSERT INTO enabled_providers (tenant_id, slug, enabled_at)
		SELECT $1, slug, now() FROM platform_providers WHERE right(slug, 1) = '7'`, r.tenant)
	require.NoError(t, err)
	_, err = r.admin.Exec(t.Context(), "ANALYZE")
	require.NoError(t, err)
	pool, reads := testkit.Watched(t, r.db)
	watched, err := catalog.New(catalog.Deps{DB: pool})
	require.NoError(t, err)
	yes, no := true, false
	for name, filter := range map[string]*bool{"all": nil, "enabled": &yes, "not enabled": &no} {
		for _, after := range []string{"", "m010000"} {
			page, more, err := watched.Providers(t.Context(), r.tenant, filter, after, 100)
			require.NoError(t, err)
			require.True(t, more)
			require.Len(t, page, 100)
			blocks, plan := reads.Blocks(t, r.tenant.String())
			require.LessOrEqual(t, blocks, most, "%s after %q\n%s", name, after, plan)
		}
	}
}
