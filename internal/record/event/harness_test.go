package event_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/quota"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// keys are the data keys of all tenants: one.
type keys struct{ key *datakey.Key }

func (k keys) Key(context.Context, uuid.UUID) (*datakey.Key, error) { return k.key, nil }

// world is the events of a database of its own.
type world struct {
	*event.Events

	t   testing.TB
	db  testkit.DB
	key *datakey.Key
}

func newWorld(tb testing.TB, quotas map[string]int64) *world {
	tb.Helper()
	key, err := datakey.New(make([]byte, datakey.Bytes))
	require.NoError(tb, err)
	w := &world{t: tb, db: testkit.Database(tb), key: key}
	limits, err := quota.New(quotas)
	require.NoError(tb, err)
	w.Events, err = event.New(event.Deps{DB: w.db.Pool, Keys: keys{key}, Log: testkit.Quiet(), Quotas: limits})
	require.NoError(tb, err)
	return w
}

// revoked is an event that says little: the name tells one from another.
func (w *world) revoked(tenant uuid.UUID, name string, about event.About) event.Event {
	return event.Event{TenantID: tenant, About: about, Key: w.key, Body: event.Revoked{APIKeyID: name}}
}

// emit writes one event.
func (w *world) emit(tenant uuid.UUID, name string, about event.About) {
	w.t.Helper()
	b := &db.Batch{}
	event.Queue(b, w.revoked(tenant, name, about))
	require.NoError(w.t, w.db.Send(context.Background(), tenant, b))
}

// begin opens a transaction of the tenant that has an xid and has written nothing.
func (w *world) begin(tenant uuid.UUID) pgx.Tx {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.db.AppURL)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(context.Background())
	require.NoError(w.t, err)
	_, err = tx.Exec(context.Background(), "SELECT set_config('app.tenant_id', $1, true), pg_current_xact_id()", tenant.String())
	require.NoError(w.t, err)
	return tx
}

// write adds an event to an open transaction.
func (w *world) write(tx pgx.Tx, tenant uuid.UUID, name string) {
	w.t.Helper()
	b := &db.Batch{}
	event.Queue(b, w.revoked(tenant, name, event.About{}))
	require.NoError(w.t, b.SendIn(context.Background(), tx))
}

// settle waits until no transaction of another test is older than the events.
func (w *world) settle() {
	w.t.Helper()
	w.eventually(func() bool {
		return w.number("SELECT count(*) FROM events WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())") == 0
	})
}

func (w *world) eventually(condition func() bool) {
	w.t.Helper()
	require.Eventually(w.t, condition, time.Minute, 2*time.Millisecond)
}

func (w *world) number(sql string) (n int) {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.db.AdminURL)
	require.NoError(w.t, err)
	defer conn.Close(context.Background())
	require.NoError(w.t, conn.QueryRow(context.Background(), sql).Scan(&n))
	return n
}

func (w *world) admin(sql string, args ...any) {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.db.AdminURL)
	require.NoError(w.t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

// names returns what tells the events of a page apart.
func names(tb testing.TB, page []event.Stored) []string {
	tb.Helper()
	out := []string{}
	for _, e := range page {
		var body struct {
			APIKeyID string `json:"api_key_id"`
			ID       string
		}
		require.NoError(tb, json.Unmarshal(e.Body, &body))
		out = append(out, body.APIKeyID+body.ID)
	}
	return out
}

func sender(tenant uuid.UUID) actor.Actor {
	return actor.Actor{Kind: actor.Key, TenantID: tenant, ID: uuid.New()}
}
