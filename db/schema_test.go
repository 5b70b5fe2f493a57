package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
)

// A process tells an empty database, an older one and a newer one from its own.
func TestCheckSchemaSaysWhetherTheDatabaseIsMigrated(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, d.CheckSchema(t.Context()))

	newest, err := db.Newest(d.AdminURL)
	require.NoError(t, err)
	version, err := db.SchemaVersion(t.Context(), d.AdminURL)
	require.NoError(t, err)
	require.Equal(t, newest, version)

	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	for _, change := range []struct {
		sql  string
		want error
	}{
		{"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)", nil},
		{"DELETE FROM goose_db_version WHERE version_id >= (SELECT max(version_id) FROM goose_db_version WHERE version_id < 99999)", db.ErrNotMigrated},
		{"REVOKE SELECT ON goose_db_version FROM agentruntime_app", db.ErrNotMigrated},
		{"DROP TABLE goose_db_version", db.ErrNotMigrated},
	} {
		_, err := admin.Exec(t.Context(), change.sql)
		require.NoError(t, err)
		require.ErrorIs(t, d.CheckSchema(t.Context()), change.want, change.sql)
	}
	version, err = db.SchemaVersion(t.Context(), d.AdminURL)
	require.NoError(t, err)
	require.Zero(t, version)
}
