package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
)

// A full disk takes neither a row nor a file. The settings stand for it: Postgres refuses
// the one or the other.
func TestTryWriteTellsWhatTheDiskDoesNotTake(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, d.TryWrite(t.Context()))
	require.NoError(t, d.TryWrite(t.Context()))
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	name := admin.Config().Database
	for _, setting := range []string{"temp_file_limit = '100kB'", "default_transaction_read_only = on"} {
		_, err := admin.Exec(t.Context(), "SET default_transaction_read_only = off; ALTER DATABASE "+name+" RESET ALL; ALTER DATABASE "+name+" SET "+setting)
		require.NoError(t, err)
		pool, err := db.Open(t.Context(), db.Config{URL: d.AppURL})
		require.NoError(t, err)
		require.Error(t, pool.TryWrite(t.Context()), setting)
		require.NoError(t, pool.Ping(t.Context()), "what readyz asked before")
		pool.Close()
	}
}

func TestTryWriteWithoutPostgresIsUnavailable(t *testing.T) {
	t.Parallel()
	pool, err := db.Open(t.Context(), db.Config{URL: "postgres://nobody@127.0.0.1:9/none"})
	require.NoError(t, err)
	defer pool.Close()
	require.True(t, fault.HasCode(pool.TryWrite(t.Context()), fault.CodeServiceUnavailable))
}
