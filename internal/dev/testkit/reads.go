package testkit

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
)

// Reads sees the statements of a pool, to tell what they read.
type Reads struct {
	db   DB
	mu   sync.Mutex
	sql  string
	args []any
}

// Watched returns a second pool over the database, and what it last read.
func Watched(tb testing.TB, d DB) (*db.Pool, *Reads) {
	tb.Helper()
	r := &Reads{db: d}
	pool, err := db.Open(context.Background(), db.Config{URL: d.AppURL, Tracer: r})
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool, r
}

// TraceQueryStart implements pgx.QueryTracer; see TraceBatchQuery.
func (r *Reads) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (r *Reads) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (r *Reads) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer: a statement of a tenant comes in a batch.
func (r *Reads) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if strings.HasPrefix(data.SQL, "select set_config") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sql, r.args = data.SQL, data.Args
}

// TraceBatchEnd implements pgx.BatchTracer.
func (r *Reads) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Last returns the last statement.
func (r *Reads) Last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sql
}

// Blocks returns how many blocks of 8 KiB the last statement reads when it runs again, as a
// tenant's statement, and its plan.
func (r *Reads) Blocks(tb testing.TB, tenant string) (blocks int, plan string) {
	tb.Helper()
	r.mu.Lock()
	sql, args := r.sql, r.args
	r.mu.Unlock()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, r.db.AppURL)
	require.NoError(tb, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SELECT set_config('app.tenant_id', $1, false), set_config('enable_seqscan', 'off', false), set_config('plan_cache_mode', 'force_custom_plan', false)", tenant)
	require.NoError(tb, err)
	var raw []byte
	require.NoError(tb, conn.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql, args...).Scan(&raw))
	var out []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`  //nolint:tagliatelle // as Postgres names it
			Read int `json:"Shared Read Blocks"` //nolint:tagliatelle // as Postgres names it
		}
	}
	require.NoError(tb, json.Unmarshal(raw, &out))
	return out[0].Plan.Hit + out[0].Plan.Read, string(raw)
}
