package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// RequestClock puts a clock of the test in the place of that by which requests are counted, for
// all processes of the database at admin. The result sets it; it begins at the given time.
func RequestClock(tb testing.TB, admin string, at time.Time) (set func(time.Time)) {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), admin)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	set = func(at time.Time) {
		tb.Helper()
		_, err := conn.Exec(context.Background(), "UPDATE test_clock SET at = $1", at)
		require.NoError(tb, err)
	}
	_, err = conn.Exec(context.Background(), `
		CREATE TABLE test_clock (at timestamptz NOT NULL);
		INSERT INTO test_clock VALUES (now());
		GRANT SELECT ON test_clock TO agentruntime_app;
		CREATE OR REPLACE FUNCTION request_clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM test_clock'`)
	require.NoError(tb, err)
	set(at)
	return set
}
