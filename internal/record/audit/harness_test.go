package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// clock is set by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// trail is a Trail over a database of its own.
type trail struct {
	*audit.Trail
	db    testkit.DB
	clock *clock
	seed  []byte
}

func newTrail(tb testing.TB, cfg audit.Config) *trail {
	tb.Helper()
	t := &trail{db: testkit.Database(tb), clock: &clock{now: time.Now().UTC()}, seed: bytes.Repeat([]byte{7}, 32)}
	t.Trail = t.over(tb, cfg, t.seed)
	return t
}

// over is another Trail over the same database, as another process has it.
func (t *trail) over(tb testing.TB, cfg audit.Config, seed []byte) *audit.Trail {
	tb.Helper()
	signer, err := chain.NewSigner(seed)
	require.NoError(tb, err)
	if cfg.SettleWait == 0 {
		cfg.SettleWait = time.Minute // nothing waits for long unless a test wants it to
	}
	made, err := audit.New(cfg, audit.Deps{DB: t.db.Pool, Signer: signer, Log: testkit.Quiet(), Now: t.clock.Now})
	require.NoError(tb, err)
	return made
}

// tenant makes a tenant, which the sealer of all tenants finds.
func (t *trail) tenant(tb testing.TB) uuid.UUID {
	tb.Helper()
	id := uuid.New()
	require.NoError(tb, dbsqlc.New().InsertTenant(context.Background(), t.db.Tenant(id), dbsqlc.InsertTenantParams{ID: id, Name: "t"}))
	return id
}

// record is a plausible one.
func record(tenant uuid.UUID, action audit.Action) audit.Record {
	session := "session-1"
	return audit.Record{
		TenantID: tenant, ActorType: actor.Key, ActorID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90", Action: action,
		Provider: "shop", Verb: "create_order", RiskLevel: "medium", Decision: "allow", Outcome: "executed",
		ExecutionID: "order-2026-0001", SessionID: &session, RequestID: "req_0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91",
		SourceAddr: "192.0.2.7", Input: json.RawMessage(`{"customer_id": "cus_1001", "amount": 1999, "currency": "eur", "card": "••••"}`),
		Details: json.RawMessage(`{"policy":"registry_default"}`),
	}
}

func (t *trail) append(tb testing.TB, tenant uuid.UUID, n int) {
	tb.Helper()
	require.NoError(tb, t.db.InTenant(context.Background(), tenant, func(tx pgx.Tx) error {
		for range n {
			if err := audit.Append(context.Background(), tx, record(tenant, "run.executed")); err != nil {
				return err
			}
		}
		return nil
	}))
}

// sealDue is SealDue once the tenant's transactions are complete: those of other tests,
// which share the server, may delay them.
func (t *trail) sealDue(tb testing.TB, tenant uuid.UUID) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		require.NoError(tb, t.SealDue(context.Background()))
		report, err := t.Verify(context.Background(), tenant)
		require.NoError(tb, err)
		return report.Unsealed == 0
	}, time.Minute, time.Millisecond)
	require.NoError(tb, t.SealDue(context.Background())) // signs, where another run has sealed
}

// valid demands a chain of n sealed records and nothing unsealed.
func (t *trail) valid(tb testing.TB, tenant uuid.UUID, n int64) {
	tb.Helper()
	report, err := t.Verify(context.Background(), tenant)
	require.NoError(tb, err)
	require.Nil(tb, report.First)
	require.Zero(tb, report.Problems)
	require.Equal(tb, []int64{n, n, 0, n}, []int64{report.Records, report.Sealed, report.Unsealed, report.HeadSeq})
}

// keys are the public ones, as the API shows them.
func (t *trail) keys(tb testing.TB) chain.Keys {
	tb.Helper()
	text, err := json.Marshal(map[string]any{"keys": t.Keys()})
	require.NoError(tb, err)
	keys, err := chain.ParseKeys(text)
	require.NoError(tb, err)
	return keys
}

// file is a whole NDJSON export.
func (t *trail) file(tb testing.TB, tenant uuid.UUID, f audit.Filter) []byte {
	tb.Helper()
	x, err := t.NDJSON(context.Background(), tenant, f)
	require.NoError(tb, err)
	var b bytes.Buffer
	require.NoError(tb, x.WriteTo(context.Background(), &b))
	return b.Bytes()
}

// admin is a connection that nothing binds.
func (t *trail) admin(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), t.db.AdminURL)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec changes what nobody may change.
func exec(tb testing.TB, conn *pgx.Conn, sql string, args ...any) {
	tb.Helper()
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	require.NoError(tb, err)
	_, err = tx.Exec(ctx, "SET LOCAL session_replication_role = replica") // triggers do not fire
	require.NoError(tb, err)
	tag, err := tx.Exec(ctx, sql, args...)
	require.NoError(tb, err)
	require.NotZero(tb, tag.RowsAffected())
	require.NoError(tb, tx.Commit(ctx))
}
