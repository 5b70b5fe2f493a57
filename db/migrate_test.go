package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
)

// A database from before the first release is refused, and stays as it is.
func TestMigrateRefusesADatabaseFromBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, 0))
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	_, err = admin.Exec(t.Context(), "CREATE TABLE tenants (id integer); INSERT INTO goose_db_version (version_id, is_applied) VALUES (298, true)")
	require.NoError(t, err)
	require.ErrorIs(t, db.Migrate(t.Context(), d.AdminURL), db.ErrTooOld)
	var columns int
	require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'tenants'").Scan(&columns))
	require.Equal(t, 1, columns)
}
