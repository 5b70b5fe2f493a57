package policy_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/sandbox"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/service/dispatch"
	"agentruntime/internal/service/importing"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// bench is the service as it is put together in the product, over a database of its
// own with two tenants. Ours has the sandbox shop in its catalog: list_orders is low
// risk, create_order medium, create_refund high.
type bench struct {
	*policy.Service
	dispatch   *dispatch.Dispatcher
	catalog    *catalog.Catalog
	db         testkit.DB
	admin      *pgx.Conn // not bound by row-level security
	ours, them uuid.UUID
	now        time.Time
}

// by is a user of the tenant.
func by(tenant uuid.UUID) actor.Actor {
	return actor.Actor{Kind: actor.User, TenantID: tenant, ID: uuid.MustParse("0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90")}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{db: testkit.Database(t), ours: uuid.New(), them: uuid.New(), now: time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)}
	for _, id := range []uuid.UUID{b.ours, b.them} {
		require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), b.db.Tenant(id), dbsqlc.InsertTenantParams{ID: id, Name: "t"}))
	}
	var err error
	b.admin, err = pgx.Connect(t.Context(), b.db.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.admin.Close(context.Background()) })
	b.catalog, err = catalog.New(catalog.Deps{DB: b.db.Pool})
	require.NoError(t, err)
	b.dispatch = b.process(t)
	b.Service, err = policy.New(policy.Deps{DB: b.db.Pool, Subjects: b.dispatch, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }})
	require.NoError(t, err)
	b.importShop(t, "shop")
	return b
}

// process is what a process of its own would judge calls by: it shares the database
// with others, and no cache.
func (b *bench) process(t *testing.T) *dispatch.Dispatcher {
	t.Helper()
	sets, err := policy.NewSets(b.db.Pool)
	require.NoError(t, err)
	safe := b.vault(t)
	client, err := httpcall.NewClient(egress.NewClient(egress.Config{}), time.Now)
	require.NoError(t, err)
	d, err := dispatch.New(dispatch.Config{Timeout: time.Second},
		dispatch.Deps{DB: b.db.Pool, Catalog: b.catalog, Vault: safe, Policies: sets, Callers: map[verb.PlanKind]dispatch.Caller{verb.KindHTTP: dispatch.HTTP(client, nil)}, Log: testkit.Quiet()})
	require.NoError(t, err)
	return d
}

func (b *bench) vault(t *testing.T) *vault.Vault {
	t.Helper()
	kms, err := vault.NewLocalKMS("k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	safe, err := vault.Open(vault.Deps{DB: b.db.Pool, KMS: kms, CheckURL: egress.Config{}.CheckURL})
	require.NoError(t, err)
	return safe
}

func (b *bench) importShop(t *testing.T, slug string) {
	t.Helper()
	importer, err := importing.New(egress.Config{}, importing.Deps{Catalog: b.catalog, Vault: b.vault(t)})
	require.NoError(t, err)
	_, err = importer.Import(t.Context(), by(b.ours), openapi.ImportInput{Slug: slug, Name: "Shop", Domain: "commerce", Document: sandbox.Document("https://shop.example.com")})
	require.NoError(t, err)
}

func (b *bench) target(t *testing.T, d *dispatch.Dispatcher, name string) run.Target {
	t.Helper()
	parsed, err := verb.Parse(name)
	require.NoError(t, err)
	target, err := d.Target(t.Context(), b.ours, parsed, run.Account{}, nil)
	require.NoError(t, err)
	return target
}

// decide judges a call without arguments as a run would be.
func (b *bench) decide(t *testing.T, name string) governance.Verdict {
	t.Helper()
	v, err := b.target(t, b.dispatch, name).Judge(t.Context(), json.RawMessage(`{}`), governance.Context{})
	require.NoError(t, err)
	return v
}

// version is the tenant's, 0 where it has none.
func (b *bench) version(t *testing.T, tenant uuid.UUID) int64 {
	t.Helper()
	batch := &db.Batch{}
	read := policy.QueueVersion(batch, tenant)
	require.NoError(t, b.db.Send(t.Context(), tenant, batch))
	return read()
}

func (b *bench) create(t *testing.T, d policy.Draft) policy.Policy {
	t.Helper()
	p, _, err := b.Create(t.Context(), by(b.ours), d)
	require.NoError(t, err)
	return p
}

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.admin.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// ran records a run of ours that began at a time, and returns its id.
func (b *bench) ran(t *testing.T, tenant uuid.UUID, at time.Time, name, args, metadata string) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli())<<16)
	copy(id[:6], ms[:6])
	provider, short, _ := strings.Cut(name, ":")
	key, err := testkit.Keys{}.Key(t.Context(), tenant)
	require.NoError(t, err)
	args = key.Seal(datakey.Place{Tenant: tenant, Row: id, Field: datakey.RunArgs}, []byte(args))
	b.exec(t, `INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id,
		source_addr, give_up_at, created_at, workflow_id) VALUES ($1, $2, $3, $3, $4, $5, $6, '', $7, $8::json, '', '', $9, $9, 'w')`,
		id, tenant, id.String(), provider, short, args, strings.Contains(metadata, "dryRun"), metadata, at)
	return id
}

func verbs(glob string) []governance.Matcher {
	return []governance.Matcher{{Type: governance.MatchVerb, Value: glob}}
}

func block(name, glob string) policy.Draft {
	return policy.Draft{Name: name, Action: "block", Matchers: verbs(glob)}
}
