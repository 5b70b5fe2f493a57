package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
)

// operator is the platform's catalog for an operator who accepts all changes.
type operator struct{ *catalog.Platform }

func (o operator) Replace(ctx context.Context, p catalog.Provider, verbs []verb.Definition) (catalog.Provider, error) {
	return o.Import(ctx, catalog.Import{Provider: p, Verbs: verbs}, true)
}

// operator returns the platform's catalog over a pool of the role that owns the tables.
func (r *rig) operator(tb testing.TB) operator {
	tb.Helper()
	pool, err := db.Open(context.Background(), db.Config{URL: r.db.AdminURL})
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	p, err := catalog.NewPlatform(catalog.Deps{DB: pool, Now: func() time.Time { return r.clock }})
	require.NoError(tb, err)
	return operator{p}
}

// offer stores the platform's providers crm (bearer) and open (without authentication).
func (r *rig) offer(tb testing.TB) operator {
	tb.Helper()
	p := r.operator(tb)
	crm := []verb.Definition{newVerb("find", "contacts", verb.RiskLow), newVerb("merge", "contacts", verb.RiskHigh), newVerb("export", "reports", verb.RiskMedium)}
	stored, err := p.Replace(context.Background(), provider("crm", "bearer"), crm)
	require.NoError(tb, err)
	require.True(tb, stored.Shared)
	require.Equal(tb, 3, stored.Imported)
	_, err = p.Replace(context.Background(), provider("open", credential.None), []verb.Definition{newVerb("status", "reports", verb.RiskLow)})
	require.NoError(tb, err)
	return p
}

func (r *rig) enable(tb testing.TB, tenant uuid.UUID, slugs ...string) {
	tb.Helper()
	for _, slug := range slugs {
		o, err := r.Enable(context.Background(), by(tenant), slug)
		require.NoError(tb, err)
		require.True(tb, o.Enabled)
	}
}

func (r *rig) pageOf(tb testing.TB, tenant uuid.UUID, f catalog.Filter) catalog.Page {
	tb.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	page, err := r.List(context.Background(), tenant, f)
	require.NoError(tb, err)
	return page
}

func TestPlatformVerbsAreStoredOnceAndSeenWhereEnabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("refund", "orders", verb.RiskHigh))
	r.enable(t, r.tenant, "crm", "crm", "open")
	r.enable(t, r.other, "open")
	r.connect(t, r.tenant, "crm", "active", "")

	require.Equal(t, []string{"crm:export", "crm:find", "crm:merge", "open:status", "shop:refund"}, names(r.pageOf(t, r.tenant, catalog.Filter{})))
	require.Equal(t, []string{"open:status"}, names(r.pageOf(t, r.other, catalog.Filter{})))
	require.Equal(t, []string{"crm", "open"}, r.pageOf(t, r.tenant, catalog.Filter{}).ProvidersConnected)
	var stored int
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM platform_verbs) + (SELECT count(*) FROM verbs)").Scan(&stored))
	require.Equal(t, 5, stored)

	page, more, err := r.Providers(t.Context(), r.tenant, nil, "", 2)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"crm", "open"}, []string{page[0].Slug, page[1].Slug})
	require.True(t, page[0].Shared)
	require.True(t, page[0].Connected)
	one, err := r.Provider(t.Context(), r.tenant, "crm")
	require.NoError(t, err)
	require.True(t, one.Shared)
	require.Equal(t, 3, one.Imported)
}

// Filters, totals and pages over own and shared providers agree with what was stored.
func TestPagesCoverOwnAndSharedProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.operator(t)
	type stored struct {
		provider, name, domain, risk string
		public                       bool
	}
	var all []stored
	for _, slug := range []string{"aa", "bb", "dd", "zz"} {
		verbs := make([]verb.Definition, 400)
		for i := range verbs {
			verbs[i] = newVerb(fmt.Sprintf("%s_%03d", slug, i), []string{"contacts", "other"}[i%2], []verb.Risk{verb.RiskLow, verb.RiskHigh}[i%3/2])
			public := i%5 == 0
			if public {
				verbs[i].Plan = json.RawMessage(`{"path":"/","security":[[]]}`)
			}
			all = append(all, stored{slug, slug + ":" + verbs[i].Name, verbs[i].Domain, string(verbs[i].Risk), public})
		}
		if slug == "aa" || slug == "dd" {
			r.replace(t, r.tenant, provider(slug, map[string]credential.Kind{"aa": credential.None, "dd": credential.Bearer}[slug]), verbs...)
			continue
		}
		_, err := p.Replace(t.Context(), provider(slug, "bearer"), verbs)
		require.NoError(t, err)
		r.enable(t, r.tenant, slug)
	}
	_, err := p.Replace(t.Context(), provider("cc", "none"), []verb.Definition{newVerb("unseen", "contacts", verb.RiskLow)})
	require.NoError(t, err)
	r.connect(t, r.tenant, "bb", "active", "")
	connected := []string{"aa", "bb"}
	for name, f := range map[string]catalog.Filter{
		"all": {}, "domain": {Domain: "contacts"}, "risk": {Risk: verb.RiskHigh}, "own provider": {Provider: "aa"}, "shared provider": {Provider: "bb"},
		"domain and risk": {Domain: "contacts", Risk: verb.RiskLow}, "connected": {ConnectedOnly: true}, "connected and risk": {ConnectedOnly: true, Risk: verb.RiskHigh},
		"connected and provider": {ConnectedOnly: true, Provider: "zz"}, "search": {Q: "does"}, "search connected": {Q: "does", ConnectedOnly: true},
		"no domain": {Domain: "*"}, "no provider": {Provider: "*"}, "not enabled": {Provider: "cc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []string{}
			for _, v := range all {
				if (f.Provider == "" || f.Provider == v.provider) && (f.Domain == "" || f.Domain == v.domain) && (f.Risk == "" || string(f.Risk) == v.risk) &&
					(!f.ConnectedOnly || v.public || slices.Contains(connected, v.provider)) {
					want = append(want, v.name)
				}
			}
			got := []string{}
			for offset := 0; ; offset += 130 {
				f.Limit, f.Offset = 130, offset
				page := r.pageOf(t, r.tenant, f)
				require.Equal(t, int64(len(want)), page.Total)
				require.Equal(t, connected, page.ProvidersConnected)
				for _, v := range page.Verbs {
					public := len(v.Security) == 1 && len(v.Security[0]) == 0
					require.Equal(t, public || slices.Contains(connected, v.Name.Provider), v.Connected, v.Name)
				}
				got = append(got, names(page)...)
				if !page.HasMore {
					break
				}
			}
			require.Equal(t, want, got)
		})
	}
}

func TestOwnProviderHidesTheSharedOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	r.enable(t, r.tenant, "crm")
	r.replace(t, r.tenant, provider("crm", credential.None), newVerb("find", "mine", verb.RiskHigh))

	require.Equal(t, []string{"crm:find"}, names(r.pageOf(t, r.tenant, catalog.Filter{})))
	m, err := r.meta(t, r.tenant, verb.Name{Provider: "crm", Verb: "find"})
	require.NoError(t, err)
	require.False(t, m.Shared)
	require.Equal(t, verb.RiskHigh, m.Risk)
	_, err = r.meta(t, r.tenant, verb.Name{Provider: "crm", Verb: "merge"})
	requireCode(t, err, fault.CodeVerbNotFound)
	_, err = r.Verb(t.Context(), r.tenant, verb.Name{Provider: "crm", Verb: "merge"})
	requireCode(t, err, fault.CodeVerbNotFound)

	// An own provider without verbs hides it too; once it is deleted, the shared one is back.
	r.replace(t, r.tenant, provider("crm", credential.None))
	require.Empty(t, r.pageOf(t, r.tenant, catalog.Filter{}).Verbs)
	require.NoError(t, r.DeleteProvider(t.Context(), by(r.tenant), "crm", nil))
	require.Len(t, r.pageOf(t, r.tenant, catalog.Filter{}).Verbs, 3)
	requireCode(t, r.DeleteProvider(t.Context(), by(r.tenant), "crm", nil), fault.CodeInsufficientPermissions)
}

func TestSharedVerbIsFoundForARun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.offer(t)
	r.enable(t, r.tenant, "crm")
	r.connect(t, r.tenant, "crm", "active", "")
	name := verb.Name{Provider: "crm", Verb: "merge"}
	want := newVerb("merge", "contacts", verb.RiskHigh)

	v, err := r.Verb(t.Context(), r.tenant, name)
	require.NoError(t, err)
	require.True(t, v.Connected)
	require.JSONEq(t, string(want.Schema), string(v.Schema))
	m, err := r.meta(t, r.tenant, name)
	require.NoError(t, err)
	require.False(t, m.ProviderAt.IsZero())
	m.ProviderAt = time.Time{}
	require.Equal(t, catalog.Meta{
		Name: name, Domain: "contacts", Risk: verb.RiskHigh, Operation: verb.Write, Idempotency: verb.IdempotencyNone,
		SchemaHash: catalog.HashOf(want.Schema), PlanHash: catalog.HashOf(want.Plan), BaseURL: "https://api.crm.test",
		Auth: json.RawMessage(`{"type":"bearer"}`), Shared: true,
	}, m)

	// One compiled form serves all tenants that enabled it.
	compiles := 0
	cache, err := catalog.NewCompiled(r.Catalog, 8_000, func(_, plan json.RawMessage) (*string, int, error) {
		compiles++
		s := string(plan)
		return &s, 1, nil
	})
	require.NoError(t, err)
	r.enable(t, r.other, "crm")
	for _, tenant := range []uuid.UUID{r.tenant, r.other} {
		m, err := r.meta(t, tenant, name)
		require.NoError(t, err)
		plan, err := cache.Load(t.Context(), tenant, m)
		require.NoError(t, err)
		require.JSONEq(t, string(want.Plan), *plan)
	}
	require.Equal(t, 1, compiles)

	// A change at the platform is every tenant's at once.
	changed := newVerb("merge", "contacts", verb.RiskMedium)
	changed.Plan = json.RawMessage(`{"path":"/v2"}`)
	_, err = p.Replace(t.Context(), provider("crm", "bearer"), []verb.Definition{changed})
	require.NoError(t, err)
	m2, err := r.meta(t, r.other, name)
	require.NoError(t, err)
	require.Equal(t, verb.RiskMedium, m2.Risk)
	fresh, err := catalog.NewCompiled(r.Catalog, 1, func(_, _ json.RawMessage) (int, int, error) { return 0, 0, nil })
	require.NoError(t, err)
	_, err = fresh.Load(t.Context(), r.tenant, m)
	require.ErrorIs(t, err, catalog.ErrReplaced)
}

func TestTenantCallsNothingItHasNotEnabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	r.enable(t, r.tenant, "crm")
	name := verb.Name{Provider: "crm", Verb: "find"}
	require.Empty(t, r.pageOf(t, r.other, catalog.Filter{}).Verbs)
	require.Zero(t, r.pageOf(t, r.other, catalog.Filter{Provider: "crm"}).Total)
	require.Empty(t, r.pageOf(t, r.other, catalog.Filter{Q: "find"}).Verbs)
	_, err := r.meta(t, r.other, name)
	requireCode(t, err, fault.CodeVerbNotFound)
	_, err = r.Verb(t.Context(), r.other, name)
	requireCode(t, err, fault.CodeVerbNotFound)

	for _, slug := range []string{"nope", "a\x00"} {
		_, err = r.Enable(t.Context(), by(r.tenant), slug)
		requireCode(t, err, fault.CodeProviderNotFound)
		_, err = r.Disable(t.Context(), by(r.tenant), slug)
		requireCode(t, err, fault.CodeProviderNotFound)
	}
	for range 2 { // a repeat changes nothing
		o, err := r.Disable(t.Context(), by(r.tenant), "crm")
		require.NoError(t, err)
		require.Equal(t, catalog.Offer{Slug: "crm", Offered: true}, o)
	}
	require.Empty(t, r.pageOf(t, r.tenant, catalog.Filter{}).Verbs)
	_, err = r.meta(t, r.tenant, name)
	requireCode(t, err, fault.CodeVerbNotFound)
}

// The service's role reads the platform's tables and can write none of them, whatever it
// says that its tenant is.
func TestServiceCannotWriteThePlatformsRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.offer(t)
	r.enable(t, r.tenant, "crm")
	ours, err := catalog.NewPlatform(catalog.Deps{DB: r.db.Pool})
	require.NoError(t, err)
	mistaken := operator{ours}
	_, err = mistaken.Replace(t.Context(), provider("crm", "bearer"), nil)
	require.ErrorContains(t, err, "permission denied")
	require.ErrorContains(t, mistaken.Delete(t.Context(), "crm"), "permission denied")
	for _, statement := range []string{
		"INSERT INTO platform_providers SELECT * FROM platform_providers", "UPDATE platform_providers SET base_url = ''", "DELETE FROM platform_providers",
		"UPDATE platform_verbs SET risk_level = 'low'", "DELETE FROM platform_verbs", "UPDATE platform_verb_counts SET n = 0", "TRUNCATE platform_verbs",
	} {
		for _, tenant := range []uuid.UUID{r.tenant, uuid.Nil} {
			err := r.db.InTenant(t.Context(), tenant, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), statement)
				return err
			})
			require.ErrorContains(t, err, "permission denied", statement)
		}
	}
	require.Len(t, r.pageOf(t, r.tenant, catalog.Filter{}).Verbs, 3)

	_, err = p.Replace(t.Context(), provider("tool", "bearer"), nil)
	requireCode(t, err, fault.CodeValidation)
	_, err = p.Replace(t.Context(), provider("crm", "bearer"), []verb.Definition{newVerb("a", "*", verb.RiskLow)})
	requireCode(t, err, fault.CodeValidation)
	requireCode(t, p.Delete(t.Context(), "nope"), fault.CodeProviderNotFound)
}

func TestDeletedSharedProviderIsGoneForAllAndComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.offer(t)
	r.enable(t, r.tenant, "crm")
	r.enable(t, r.other, "crm")
	require.NoError(t, p.Delete(t.Context(), "crm"))
	for _, tenant := range []uuid.UUID{r.tenant, r.other} {
		require.Zero(t, r.pageOf(t, tenant, catalog.Filter{}).Total)
	}
	var left int
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT count(*) FROM platform_verb_counts WHERE provider = 'crm'").Scan(&left))
	require.Zero(t, left)
	r.offer(t)
	require.Equal(t, int64(3), r.pageOf(t, r.other, catalog.Filter{}).Total)
}

// The policies' warnings count and read the same verbs as a page shows.
func TestPoliciesSeeSharedVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	r.enable(t, r.tenant, "crm")
	r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("refund", "orders", verb.RiskHigh))
	q := dbsqlc.New()
	for tenant, want := range map[uuid.UUID]struct {
		verbs     int64
		providers []string
		domains   []string
		patterns  []int32
	}{
		r.tenant: {4, []string{}, []string{"reports_2"}, nil},
		r.other:  {0, []string{"crm", "shop"}, []string{"contacts", "reports_2"}, []int32{0, 1}},
	} {
		on := r.db.Tenant(tenant)
		n, err := q.CountMatchedVerbs(t.Context(), on, dbsqlc.CountMatchedVerbsParams{TenantID: tenant, Anywhere: true})
		require.NoError(t, err)
		require.Equal(t, want.verbs, n.Verbs)
		schemas, err := q.MatchedSchemas(t.Context(), on, dbsqlc.MatchedSchemasParams{TenantID: tenant, Anywhere: true, N: 10})
		require.NoError(t, err)
		require.Len(t, schemas, int(want.verbs))
		providers, err := q.MissingProviders(t.Context(), on, dbsqlc.MissingProvidersParams{TenantID: tenant, Slugs: []string{"crm", "shop"}})
		require.NoError(t, err)
		require.Equal(t, want.providers, providers)
		domains, err := q.MissingDomains(t.Context(), on, dbsqlc.MissingDomainsParams{TenantID: tenant, Domains: []string{"contacts", "reports_2"}})
		require.NoError(t, err)
		require.Equal(t, want.domains, domains)
		patterns, err := q.MissingVerbs(t.Context(), on, dbsqlc.MissingVerbsParams{
			TenantID: tenant, Places: []int32{0, 1}, Patterns: []string{"crm:%", "%:merge"}, Providers: []string{"crm", ""},
			Risks: []string{"", ""}, Operations: []string{"", ""}, Domains: []string{"", ""},
		})
		require.NoError(t, err)
		require.ElementsMatch(t, want.patterns, patterns)
	}
}

// A call that waits for approval is looked at again when the verb it means can have changed.
func TestSharedChangesMarkPendingApprovals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.offer(t)
	r.enable(t, r.tenant, "crm")
	marked := func(what string, change func() error) {
		t.Helper()
		_, err := r.admin.Exec(t.Context(), `INSERT INTO approvals (id, tenant_id, run_id, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason)
			VALUES ($1, $2, $3::uuid, $3::uuid::text, 'e', 'pending', 'crm', 'merge', '{}', 'high', '', '')`, what, r.tenant, uuid.New())
		require.NoError(t, err)
		require.NoError(t, change())
		var recheck bool
		require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT recheck FROM approvals WHERE id = $1", what).Scan(&recheck))
		require.True(t, recheck, what)
	}
	marked("replace", func() error { _, err := p.Replace(t.Context(), provider("crm", "bearer"), nil); return err })
	marked("hide", func() error {
		_, err := r.Replace(t.Context(), by(r.tenant), provider("crm", "bearer"), nil)
		return err
	})
	marked("disable", func() error { _, err := r.Disable(t.Context(), by(r.tenant), "crm"); return err })
	marked("delete", func() error { return p.Delete(t.Context(), "crm") })
}

// The platform's tables have the columns of the tenants' ones, apart from the tenant.
func TestPlatformTablesHaveTheTenantsColumns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, table := range []string{"providers", "verbs", "verb_counts"} {
		// verb_bytes is for the quota of a tenant, and the platform has none. It keeps no documents, and no import of a tenant changes its verbs.
		columns := func(table string) []string {
			rows, err := r.admin.Query(t.Context(), `SELECT column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
				FROM information_schema.columns WHERE table_name = $1 AND column_name NOT IN ('tenant_id', 'verb_bytes', 'document_size', 'import_settings', 'report', 'risk_by', 'quarantine') ORDER BY 1`, table)
			require.NoError(t, err)
			out, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			return out
		}
		require.Equal(t, columns(table), columns("platform_"+table))
	}
}
