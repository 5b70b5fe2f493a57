package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// rig is a catalog on a database of its own with two tenants.
type rig struct {
	*catalog.Catalog
	db     testkit.DB
	admin  *pgx.Conn
	tenant uuid.UUID
	other  uuid.UUID
	clock  time.Time
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	ctx := context.Background()
	r := &rig{db: testkit.Database(tb), clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	var err error
	r.Catalog, err = catalog.New(catalog.Deps{DB: r.db.Pool, Now: func() time.Time { return r.clock }})
	require.NoError(tb, err)
	for _, id := range []*uuid.UUID{&r.tenant, &r.other} {
		*id = uuid.Must(uuid.NewV7())
		require.NoError(tb, dbsqlc.New().InsertTenant(ctx, r.db.Tenant(*id), dbsqlc.InsertTenantParams{ID: *id, Name: "t"}))
	}
	r.admin, err = pgx.Connect(ctx, r.db.AdminURL)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, r.admin.Close(context.Background())) })
	return r
}

// by is a user of the tenant.
func by(tenant uuid.UUID) actor.Actor {
	return actor.Actor{Kind: actor.User, TenantID: tenant, ID: uuid.MustParse("0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90")}
}

// meta asks for a verb by itself.
func (r *rig) meta(tb testing.TB, tenant uuid.UUID, name verb.Name) (catalog.Meta, error) {
	tb.Helper()
	b := &db.Batch{}
	own := catalog.QueueOwnMeta(b, tenant, name)
	require.NoError(tb, r.db.Send(context.Background(), tenant, b))
	if m, found := own(); found {
		return m, nil
	}
	return r.Meta(context.Background(), tenant, name)
}

func provider(slug string, auth credential.Kind) catalog.Provider {
	return catalog.Provider{
		Slug: slug, Name: strings.ToUpper(slug), Domain: slug, BaseURL: "https://api." + slug + ".test", AuthType: auth,
		Auth: json.RawMessage(`{"type":"` + string(auth) + `"}`), DocumentHash: catalog.HashOf([]byte(slug)),
	}
}

func newVerb(name, domain string, risk verb.Risk) verb.Definition {
	v := verb.Definition{
		Name: name, Domain: domain, Description: "Does " + name + ".", Risk: risk, Operation: verb.Write, Idempotency: verb.IdempotencyNone,
		Schema: json.RawMessage(`{"type":"object","properties":{"` + name + `":{"type":"string"}},"required":[]}`),
		Plan:   json.RawMessage(`{"path":"/` + name + `"}`),
	}
	if risk == verb.RiskLow {
		v.Operation, v.Idempotency = verb.Read, verb.IdempotencyIntrinsic
	}
	return v
}

func (r *rig) replace(tb testing.TB, tenant uuid.UUID, p catalog.Provider, verbs ...verb.Definition) catalog.Provider {
	tb.Helper()
	got, err := r.Replace(context.Background(), by(tenant), p, verbs)
	require.NoError(tb, err)
	return got
}

// connect gives the tenant an active credential without the vault, which is a
// sibling.
func (r *rig) connect(tb testing.TB, tenant uuid.UUID, slug, status, customer string) {
	tb.Helper()
	_, err := r.admin.Exec(context.Background(), `INSERT INTO credentials
		(id, tenant_id, provider, type, label, customer_id, allowed_hosts, status, version, kek_id, wrapped_key, ciphertext, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, 'bearer', '', nullif($5, ''), '{}', $4, 1, 'k', '', '', '', now(), now())`,
		uuid.New(), tenant, slug, status, customer)
	require.NoError(tb, err)
}

func (r *rig) list(tb testing.TB, f catalog.Filter) catalog.Page {
	tb.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	page, err := r.List(context.Background(), r.tenant, f)
	require.NoError(tb, err)
	return page
}

func names(p catalog.Page) []string {
	out := make([]string, len(p.Verbs))
	for i, v := range p.Verbs {
		out[i] = v.Name.String()
	}
	return out
}

func requireCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	require.True(t, fault.HasCode(err, code), "want %s, got %v", code, err)
}

// shelf fills the rig: shop connected, mail not, open without authentication.
func shelf(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.replace(t, r.tenant, provider("shop", "bearer"),
		newVerb("refund", "orders", verb.RiskHigh), newVerb("list_orders", "orders", verb.RiskLow),
		newVerb("create_order", "orders", verb.RiskMedium), newVerb("list_customers", "customers", verb.RiskLow))
	r.replace(t, r.tenant, provider("mail", "api_key"), newVerb("send", "messages", verb.RiskMedium), newVerb("purge", "orders", verb.RiskHigh))
	r.replace(t, r.tenant, provider("open", credential.None), newVerb("status", "orders", verb.RiskLow))
	r.replace(t, r.other, provider("shop", "bearer"), newVerb("foreign", "orders", verb.RiskLow))
	r.connect(t, r.tenant, "shop", "active", "")
	r.connect(t, r.tenant, "mail", "revoked", "")
	r.connect(t, r.tenant, "mail", "active", "cus_1")
	r.connect(t, r.tenant, "ghost", "active", "")
	return r
}

func TestListSelectsByEveryFilter(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	tests := map[string]struct {
		filter catalog.Filter
		want   []string
	}{
		"none": {catalog.Filter{}, []string{
			"mail:purge", "mail:send", "open:status", "shop:create_order", "shop:list_customers", "shop:list_orders", "shop:refund",
		}},
		"provider":             {catalog.Filter{Provider: "mail"}, []string{"mail:purge", "mail:send"}},
		"domain":               {catalog.Filter{Domain: "orders"}, []string{"mail:purge", "open:status", "shop:create_order", "shop:list_orders", "shop:refund"}},
		"risk":                 {catalog.Filter{Risk: verb.RiskHigh}, []string{"mail:purge", "shop:refund"}},
		"connected":            {catalog.Filter{ConnectedOnly: true}, []string{"open:status", "shop:create_order", "shop:list_customers", "shop:list_orders", "shop:refund"}},
		"provider and risk":    {catalog.Filter{Provider: "shop", Risk: verb.RiskLow}, []string{"shop:list_customers", "shop:list_orders"}},
		"provider and domain":  {catalog.Filter{Provider: "shop", Domain: "customers"}, []string{"shop:list_customers"}},
		"domain and risk":      {catalog.Filter{Domain: "orders", Risk: verb.RiskLow}, []string{"open:status", "shop:list_orders"}},
		"all four":             {catalog.Filter{Provider: "shop", Domain: "orders", Risk: verb.RiskHigh, ConnectedOnly: true}, []string{"shop:refund"}},
		"connected and domain": {catalog.Filter{Domain: "messages", ConnectedOnly: true}, []string{}},
		"not connected":        {catalog.Filter{Provider: "mail", ConnectedOnly: true}, []string{}},
		"unknown provider":     {catalog.Filter{Provider: "nope"}, []string{}},
		"unknown domain":       {catalog.Filter{Domain: "nope"}, []string{}},
		"star as provider":     {catalog.Filter{Provider: "*"}, []string{}},
		"star as domain":       {catalog.Filter{Domain: "*"}, []string{}},
		"word of a name":       {catalog.Filter{Q: "order"}, []string{"shop:create_order", "shop:list_orders"}},
		"words, any case":      {catalog.Filter{Q: " ORDER  create "}, []string{"shop:create_order"}},
		"word of description":  {catalog.Filter{Q: "does"}, []string{"mail:purge", "mail:send", "open:status", "shop:create_order", "shop:list_customers", "shop:list_orders", "shop:refund"}},
		"full name":            {catalog.Filter{Q: "shop:refund"}, []string{"shop:refund"}},
		"pattern characters":   {catalog.Filter{Q: "%"}, []string{}},
		"underscore":           {catalog.Filter{Q: "l_st"}, []string{}},
		"backslash":            {catalog.Filter{Q: `\`}, []string{}},
		"quote":                {catalog.Filter{Q: `'; drop table verbs; --`}, []string{}},
		"blank q":              {catalog.Filter{Q: "  ", Provider: "mail"}, []string{"mail:purge", "mail:send"}},
		"q and filters":        {catalog.Filter{Q: "list", Risk: verb.RiskLow, Provider: "shop", ConnectedOnly: true}, []string{"shop:list_customers", "shop:list_orders"}},
		"foreign tenant":       {catalog.Filter{Q: "foreign"}, []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := r.list(t, tt.filter)
			require.Equal(t, tt.want, names(page))
			require.Equal(t, int64(len(tt.want)), page.Total)
			require.Equal(t, []string{"open", "shop"}, page.ProvidersConnected)
			require.False(t, page.HasMore)
			for _, v := range page.Verbs {
				require.Equal(t, v.Name.Provider != "mail", v.Connected, v.Name)
			}

			// Every page of two, put together, is the whole.
			var walked []string
			for offset := 0; ; offset += 2 {
				f := tt.filter
				f.Limit, f.Offset = 2, offset
				part := r.list(t, f)
				require.Equal(t, int64(len(tt.want)), part.Total)
				walked = append(walked, names(part)...)
				require.Equal(t, offset+len(part.Verbs) < len(tt.want), part.HasMore)
				if !part.HasMore {
					break
				}
			}
			require.Equal(t, tt.want, append([]string{}, walked...))
		})
	}
}

func TestListRefusesWhatPostgresWould(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, f := range map[string]catalog.Filter{
		"NUL in provider": {Provider: "a\x00"},
		"bad UTF-8":       {Domain: "\xff"},
		"long q":          {Q: strings.Repeat("a", 300)},
		"many words":      {Q: strings.Repeat("a ", 11)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.Limit = 1
			_, err := r.List(t.Context(), r.tenant, f)
			requireCode(t, err, fault.CodeValidation)
		})
	}
	page := r.list(t, catalog.Filter{Offset: math.MaxInt})
	require.Empty(t, page.Verbs)
	require.NotNil(t, page.Verbs)
	require.NotNil(t, page.ProvidersConnected)
}

func TestVerbIsReadByName(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	name := verb.Name{Provider: "shop", Verb: "refund"}
	want := newVerb("refund", "orders", verb.RiskHigh)

	v, err := r.Verb(t.Context(), r.tenant, name)
	require.NoError(t, err)
	require.Equal(t, catalog.Verb{
		Name: name, Domain: "orders", Description: want.Description, Risk: verb.RiskHigh, Operation: verb.Write,
		Idempotency: verb.IdempotencyNone, SchemaHash: catalog.HashOf(want.Schema), Schema: want.Schema, Connected: true, Trust: verb.External,
		Security: verb.Security{{{Type: "bearer"}}},
	}, v)
	v.Trust = "" // lists do not read it
	require.Equal(t, v, r.list(t, catalog.Filter{Q: "refund"}).Verbs[0])

	m, err := r.meta(t, r.tenant, name)
	require.NoError(t, err)
	require.False(t, m.ProviderAt.IsZero())
	m.ProviderAt = time.Time{}
	require.Equal(t, catalog.Meta{
		Name: name, Domain: "orders", Risk: verb.RiskHigh, Operation: verb.Write, Idempotency: verb.IdempotencyNone,
		SchemaHash: catalog.HashOf(want.Schema), PlanHash: catalog.HashOf(want.Plan), BaseURL: "https://api.shop.test",
		Auth: json.RawMessage(`{"type":"bearer"}`),
	}, m)

	for _, unknown := range []verb.Name{{Provider: "shop", Verb: "foreign"}, {Provider: "shop", Verb: "nope"}, {Provider: "nope", Verb: "refund"}} {
		_, err = r.Verb(t.Context(), r.tenant, unknown)
		requireCode(t, err, fault.CodeVerbNotFound)
		_, err = r.meta(t, r.tenant, unknown)
		requireCode(t, err, fault.CodeVerbNotFound)
	}
}

func TestReplaceStoresExactlyTheNewVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := provider("shop", "bearer")
	p.Degraded = []verb.Report{{Operation: "GET /x", Reason: "lost"}}
	first := r.replace(t, r.tenant, p, newVerb("a", "one", verb.RiskLow), newVerb("b", "one", verb.RiskHigh))
	require.Equal(t, 2, first.Imported)
	got, err := r.Provider(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, p.Degraded, got.Degraded)
	require.NotNil(t, got.Rejected)
	require.Equal(t, catalog.HashOf([]byte("shop")), got.DocumentHash)

	r.clock = r.clock.Add(time.Hour)
	again := provider("shop", credential.None)
	again.Name = "New"
	second := r.replace(t, r.tenant, again, newVerb("b", "two", verb.RiskLow), newVerb("c", "two", verb.RiskLow), newVerb("d", "one", verb.RiskMedium))
	require.Equal(t, first.CreatedAt, second.CreatedAt)
	require.Equal(t, r.clock, second.UpdatedAt)
	require.False(t, first.Connected)
	require.True(t, second.Connected)
	require.Equal(t, []string{"shop:b", "shop:c", "shop:d"}, names(r.list(t, catalog.Filter{})))
	require.Equal(t, verb.RiskLow, r.list(t, catalog.Filter{Q: "shop:b"}).Verbs[0].Risk)
	got, err = r.Provider(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, "New", got.Name)
	require.Empty(t, got.Degraded)
	require.True(t, got.Connected)
	r.requireCountsHold(t)

	// An empty document is a provider without verbs.
	r.replace(t, r.tenant, again)
	require.Zero(t, r.list(t, catalog.Filter{}).Total)
	r.requireCountsHold(t)
}

func TestReplaceIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("a", "one", verb.RiskLow))
	_, err := r.Replace(t.Context(), by(r.tenant), provider("shop", "bearer"), []verb.Definition{newVerb("b", "one", verb.RiskLow), newVerb("b", "one", verb.RiskLow)})
	require.Error(t, err)
	require.Equal(t, []string{"shop:a"}, names(r.list(t, catalog.Filter{})))
	r.requireCountsHold(t)

	_, err = r.Replace(t.Context(), by(r.tenant), provider("tool", "bearer"), nil)
	requireCode(t, err, fault.CodeValidation)
	_, err = r.Replace(t.Context(), by(r.tenant), provider("shop", "bearer"), []verb.Definition{newVerb("b", "*", verb.RiskLow)})
	requireCode(t, err, fault.CodeValidation)
}

func TestDeletedProviderLeavesPagesAndCounts(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	require.NoError(t, r.DeleteProvider(t.Context(), by(r.tenant), "shop", nil))
	requireCode(t, r.DeleteProvider(t.Context(), by(r.tenant), "shop", nil), fault.CodeProviderNotFound)
	requireCode(t, r.DeleteProvider(t.Context(), by(r.tenant), "a\x00", nil), fault.CodeProviderNotFound)
	_, err := r.Provider(t.Context(), r.tenant, "shop")
	requireCode(t, err, fault.CodeProviderNotFound)
	page := r.list(t, catalog.Filter{})
	require.Equal(t, []string{"mail:purge", "mail:send", "open:status"}, names(page))
	require.Equal(t, []string{"open"}, page.ProvidersConnected)
	r.requireCountsHold(t)

	foreign, err := r.List(t.Context(), r.other, catalog.Filter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, int64(1), foreign.Total)
}

func TestProvidersArePagedBySlug(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	page, more, err := r.Providers(t.Context(), r.tenant, nil, "", 2)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"mail", "open"}, []string{page[0].Slug, page[1].Slug})
	require.False(t, page[0].Connected)
	require.True(t, page[1].Connected)
	page, more, err = r.Providers(t.Context(), r.tenant, nil, "open", 2)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, page, 1)
	require.Equal(t, 4, page[0].Imported)
	require.Equal(t, credential.Bearer, page[0].AuthType)

	_, err = r.Provider(t.Context(), r.other, "mail")
	_, unknown := r.Provider(t.Context(), r.other, "nope")
	require.Equal(t, unknown, err)
}

func TestDeepPagesContinueTheFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	verbs := make([]verb.Definition, 1300)
	for i := range verbs {
		verbs[i] = newVerb(fmt.Sprintf("v%04d", i), "all", []verb.Risk{verb.RiskLow, verb.RiskHigh}[i%13/12])
	}
	r.replace(t, r.tenant, provider("shop", "bearer"), verbs...)
	r.connect(t, r.tenant, "shop", "active", "")
	for name, f := range map[string]catalog.Filter{
		"all": {}, "connected": {ConnectedOnly: true}, "risk": {Risk: verb.RiskLow}, "provider": {Provider: "shop"}, "search": {Q: "does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.Limit = 500
			whole := names(r.list(t, f))
			f.Offset = 500
			whole = append(whole, names(r.list(t, f))...)
			f.Offset = 1000
			last := r.list(t, f)
			whole = append(whole, names(last)...)
			require.Len(t, whole, int(last.Total))
			require.True(t, slices.IsSorted(whole))
			require.NotEmpty(t, last.Verbs[0].Schema)
		})
	}
}

// TestConcurrentImportsLeaveTheVerbsOfOne races imports of one slug, of different slugs and a deletion;
// whichever is last, a slug has the verbs of one import and the counts are right.
func TestConcurrentImportsLeaveTheVerbsOfOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			slug := []string{"shop", "shop", "mail"}[i%3]
			verbs := make([]verb.Definition, 20+i)
			for n := range verbs {
				verbs[n] = newVerb(fmt.Sprintf("v%d_%d", i, n), fmt.Sprintf("d%d", n%3), []verb.Risk{verb.RiskLow, verb.RiskHigh}[n%2])
			}
			if _, err := r.Replace(t.Context(), by(r.tenant), provider(slug, "bearer"), verbs); err != nil {
				t.Errorf("import %d: %v", i, err)
			}
			if i == 5 {
				if err := r.DeleteProvider(t.Context(), by(r.tenant), "mail", nil); err != nil && !fault.HasCode(err, fault.CodeProviderNotFound) {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	r.requireCountsHold(t)
	page := r.list(t, catalog.Filter{Provider: "shop"})
	source, _, _ := strings.Cut(page.Verbs[0].Name.Verb, "_")
	for _, v := range page.Verbs {
		require.True(t, strings.HasPrefix(v.Name.Verb, source+"_"), "%s beside %s", v.Name, source)
	}
}

// requireCountsHold compares the summary counts of every tenant with the verbs.
func (r *rig) requireCountsHold(t *testing.T) {
	t.Helper()
	const counted = `SELECT tenant_id::text || '/' || coalesce(provider, '*') || '/' || coalesce(domain, '*') || '/' || coalesce(risk_level, '*') || '/' || count(*)
		FROM verbs GROUP BY tenant_id, CUBE (provider, domain, risk_level) ORDER BY 1`
	const stored = `SELECT tenant_id::text || '/' || provider || '/' || domain || '/' || risk_level || '/' || n FROM verb_counts ORDER BY 1`
	read := func(sql string) []string {
		rows, err := r.admin.Query(context.Background(), sql)
		require.NoError(t, err)
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return out
	}
	require.Equal(t, read(counted), read(stored))
}

func TestCompiledVerbsAreKeptByContent(t *testing.T) {
	t.Parallel()
	r := shelf(t)
	type compiled struct{ schema, plan string }
	compiles := 0
	refuse := false
	cache, err := catalog.NewCompiled(r.Catalog, 25_000, func(schema, plan json.RawMessage) (*compiled, int, error) {
		if refuse {
			return nil, 0, errors.New("refused")
		}
		compiles++
		return &compiled{string(schema), string(plan)}, 10_000, nil // two have room
	})
	require.NoError(t, err)
	load := func(name string) *compiled {
		t.Helper()
		m, err := r.meta(t, r.tenant, verb.Name{Provider: "shop", Verb: name})
		require.NoError(t, err)
		c, err := cache.Load(t.Context(), r.tenant, m)
		require.NoError(t, err)
		return c
	}
	a := load("refund")
	require.JSONEq(t, `{"path":"/refund"}`, a.plan)
	require.Same(t, a, load("refund"))
	require.Equal(t, 1, compiles)

	load("list_orders")
	load("refund")
	load("create_order") // the third: list_orders, used longest ago, goes
	require.Same(t, a, load("refund"))
	require.Equal(t, 3, compiles)
	load("list_orders")
	require.Equal(t, 4, compiles)

	old, err := r.meta(t, r.tenant, verb.Name{Provider: "shop", Verb: "list_customers"})
	require.NoError(t, err)
	changed := newVerb("list_customers", "customers", verb.RiskLow)
	changed.Plan = json.RawMessage(`{"path":"/v2"}`)
	r.replace(t, r.tenant, provider("shop", "bearer"), changed)
	_, err = cache.Load(t.Context(), r.tenant, old)
	require.ErrorIs(t, err, catalog.ErrReplaced)
	require.JSONEq(t, `{"path":"/v2"}`, load("list_customers").plan)

	// What does not compile is not kept.
	refuse = true
	m, err := r.meta(t, r.tenant, verb.Name{Provider: "mail", Verb: "send"})
	require.NoError(t, err)
	_, err = cache.Load(t.Context(), r.tenant, m)
	require.ErrorContains(t, err, "refused")
	refuse = false
	_, err = cache.Load(t.Context(), r.tenant, m)
	require.NoError(t, err)
	_, err = cache.Load(t.Context(), r.other, m)
	requireCode(t, err, fault.CodeVerbNotFound)
}
