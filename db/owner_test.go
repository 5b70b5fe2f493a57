package db_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// asOwner runs the up part of a migration as the owner of the tables who is no superuser, whom
// row-level security binds.
func (o *old) asOwner(file string, tables ...string) {
	o.Helper()
	text, err := os.ReadFile("migrations/" + file)
	require.NoError(o, err)
	up, _, found := strings.Cut(string(text), "-- +goose Down")
	require.True(o, found)
	role := pgx.Identifier{"owner_" + strings.ReplaceAll(uuid.NewString(), "-", "")}.Sanitize()
	o.exec("CREATE ROLE " + role)
	o.Cleanup(func() {
		ctx := context.WithoutCancel(o.Context()) // a cleanup runs after the test's own has ended
		conn, err := pgx.Connect(ctx, o.url)
		require.NoError(o, err)
		_, err = conn.Exec(ctx, "REASSIGN OWNED BY "+role+" TO CURRENT_USER; DROP OWNED BY "+role+"; DROP ROLE "+role)
		require.NoError(o, err)
		require.NoError(o, conn.Close(ctx))
	})
	o.exec("GRANT ALL ON SCHEMA public TO " + role)
	for _, table := range tables {
		o.exec("ALTER TABLE " + pgx.Identifier{table}.Sanitize() + " OWNER TO " + role)
	}
	o.exec("SET ROLE " + role)
	o.exec(up)
	o.exec("RESET ROLE")
}

// Versions of Maps from before their verbs were noted have them after.
func TestMigrationNotesTheVerbsOfStoredMapsForAnyOwner(t *testing.T) {
	t.Parallel()
	o := newOld(t, 157)
	id := uuid.New()
	o.exec(`INSERT INTO maps (id, tenant_id, name, description, latest_version, revision, bytes, created_by, created_at, updated_by, updated_at)
		VALUES ($1, $2, 'm', '', 1, 1, 0, 'user:x', now(), 'user:x', now())`, id, o.tenant)
	o.exec(`INSERT INTO map_versions (map_id, tenant_id, version, name, definition, size, digest, cognitive, starts, start_versions, created_by, created_at)
		VALUES ($1, $2, 1, 'm', '{"steps":[{"verb":"shop:pay"}]}', 0, '', false, '{}', '{}', 'user:x', now())`, id, o.tenant)
	o.asOwner("00158_quarantined_verbs.sql", "map_versions", "verbs", "tenants")
	var verbs []string
	var forced bool
	require.NoError(t, o.conn.QueryRow(t.Context(), `SELECT v.verbs, c.relforcerowsecurity FROM map_versions v, pg_class c WHERE c.oid = 'map_versions'::regclass`).Scan(&verbs, &forced))
	require.Equal(t, []string{"shop:pay"}, verbs)
	require.True(t, forced)
}
