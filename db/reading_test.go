package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
)

func TestStatementBeyondItsLimitIsCancelled(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t).Pool
	read := pool.Reading(uuid.New(), 50*time.Millisecond)
	_, err := read.Exec(t.Context(), "select pg_sleep(60)")
	f := fault.As(err)
	require.NotNil(t, f, "%v", err)
	require.Equal(t, fault.CodeServiceUnavailable, f.Code)
	require.Contains(t, f.Message, "a narrower filter")

	// The limit ended with its transaction, also where the connection is used again.
	_, err = pool.Tenant(uuid.New()).Exec(t.Context(), "select pg_sleep(0.1)")
	require.NoError(t, err)
	_, err = read.Exec(t.Context(), "select 1")
	require.NoError(t, err)
}

// reads keeps n statements of the tenant under way.
func reads(t *testing.T, pool *db.Pool, tenant uuid.UUID, n int) []pgx.Rows {
	t.Helper()
	var open []pgx.Rows
	for range n {
		rows, err := pool.Reading(tenant, db.ListLimit).Query(t.Context(), "select 1") //nolint:sqlclosecheck // the clean-up closes it
		require.NoError(t, err)
		t.Cleanup(rows.Close)
		open = append(open, rows)
	}
	return open
}

// hasNoTurn reports whether the tenant would have to wait.
func hasNoTurn(t *testing.T, pool *db.Pool, tenant uuid.UUID) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := pool.Reading(tenant, db.ListLimit).Exec(ctx, "select 1")
	if err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	return err != nil
}

func TestReadsLeaveConnectionsToRunsAndToOtherTenants(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t).Pool // 16 connections
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	ofA := reads(t, pool, a, 4)
	require.True(t, hasNoTurn(t, pool, a), "a tenant has a quarter")
	reads(t, pool, b, 4)
	require.True(t, hasNoTurn(t, pool, c), "all tenants have half")
	for _, tenant := range []uuid.UUID{a, b, c} {
		_, err := pool.Tenant(tenant).Exec(t.Context(), "select 1")
		require.NoError(t, err)
	}
	ofA[0].Close()
	require.False(t, hasNoTurn(t, pool, c))
	require.False(t, hasNoTurn(t, pool, a))
}

func TestBatchThatReadsWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t).Pool
	tenant := uuid.New()
	open := reads(t, pool, tenant, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, pool.SendReading(ctx, tenant, db.ListLimit, &db.Batch{}), context.DeadlineExceeded)
	open[0].Close()
	require.NoError(t, pool.SendReading(t.Context(), tenant, db.ListLimit, &db.Batch{}))
	require.NoError(t, pool.SendReading(t.Context(), tenant, db.ListLimit, &db.Batch{}), "the turn was given back")
}

// A step of a workflow has a context that ends with its time. The next try must not find the statements of
// the one before at work, nor wait for its connection.
func TestEndOfAContextStopsItsStatement(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	tenant := uuid.New()
	sleep := func(ctx context.Context, tx dbsqlc.DBTX, seconds int) error {
		_, err := tx.Exec(ctx, "select pg_sleep($1)", seconds)
		return err
	}
	batch := func() *db.Batch {
		b := &db.Batch{}
		db.QueueExec(b, sleep, 60)
		return b
	}
	for name, run := range map[string]func(ctx context.Context) error{
		"a statement": func(ctx context.Context) error { return sleep(ctx, d.Tenant(tenant), 60) },
		"a batch":     func(ctx context.Context) error { return d.Send(ctx, tenant, batch()) },
		"a transaction": func(ctx context.Context) error {
			return d.InTenant(ctx, tenant, func(tx pgx.Tx) error { return sleep(ctx, tx, 60) })
		},
		"read and write": func(ctx context.Context) error { return d.ReadAndWrite(ctx, tenant, batch(), nil) },
		"a batch within": func(ctx context.Context) error {
			return d.InTenant(ctx, tenant, func(tx pgx.Tx) error { return batch().SendIn(ctx, tx) })
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.Error(t, run(ctx), name)
		cancel()
		require.Eventually(t, func() bool {
			var n int
			err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'").Scan(&n)
			return err == nil && n == 0
		}, 10*time.Second, 10*time.Millisecond, "%s goes on", name)
	}
	_, err = d.Tenant(tenant).Exec(t.Context(), "select 1")
	require.NoError(t, err)
}
