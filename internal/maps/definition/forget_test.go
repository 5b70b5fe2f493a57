package definition_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// execution adds an execution of version 1 of a Map, with a name that its trigger had.
func (s *shelf) execution(of uuid.UUID) (id uuid.UUID) {
	s.t.Helper()
	id = uuid.Must(uuid.NewV7())
	s.exec(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		VALUES ($1, $2, gen_random_uuid()::text, $3, 1, 'x', false, '', '', '{}', 'key', '', '', '', now())`, id, s.who.TenantID, of)
	s.exec("INSERT INTO map_keys (tenant_id, map_id, key, execution) VALUES ($1, $2, gen_random_uuid()::text, $3)", s.who.TenantID, of, id)
	return id
}

func (s *shelf) exec(sql string, args ...any) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.db.AdminURL)
	require.NoError(s.t, err)
	defer func() { _ = conn.Close(s.t.Context()) }()
	_, err = conn.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

func (s *shelf) count(table string) (n int) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.db.AdminURL)
	require.NoError(s.t, err)
	defer func() { _ = conn.Close(s.t.Context()) }()
	require.NoError(s.t, conn.QueryRow(s.t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// A deleted Map is forgotten when the texts are erased of all executions that could need it: its
// own, and those of Maps that start a version of it.
func TestDeletedMapIsForgottenWhenNothingNeedsIt(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	gone, kept := s.create("gone"), s.create("kept")
	above := s.create("above", starting(gone, 1))
	own, other, unrelated := s.execution(gone), s.execution(above), s.execution(kept)
	forget := func() {
		s.exec("UPDATE maps SET looked_at = NULL")
		require.NoError(t, s.Forget(t.Context(), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)))
	}
	require.Equal(t, fault.CodeConflict, fault.As(s.Delete(t.Context(), s.who, gone, nil)).Code)
	require.NoError(t, s.Delete(t.Context(), s.who, above, nil))
	require.NoError(t, s.Delete(t.Context(), s.who, gone, nil))
	require.NoError(t, s.Forget(t.Context(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), "it was deleted later")
	forget()
	require.Equal(t, 3, s.count("maps"))
	s.exec("UPDATE map_executions SET erased_at = now() WHERE id = $1", own)
	forget()
	require.Equal(t, 3, s.count("maps"), "one that has started it may start it again")
	s.exec("UPDATE map_executions SET erased_at = now() WHERE id = $1", other)
	require.NoError(t, s.Forget(t.Context(), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)))
	require.Equal(t, 3, s.count("maps"), "it was looked at a moment ago")
	forget()
	require.Equal(t, 1, s.count("maps"))
	require.Equal(t, 1, s.count("map_versions"))
	require.Equal(t, 1, s.count("map_keys"))
	require.Equal(t, 3, s.count("map_executions"), "the tombstones stay")
	s.exec("UPDATE map_executions SET erased_at = now() WHERE id = $1", unrelated)
	forget()
	_, err := s.Get(t.Context(), s.who.TenantID, kept)
	require.NoError(t, err, "a Map that was not deleted stays")
}

func TestDeletedMapWithManyVersionsIsForgotten(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	gone := s.create("gone")
	s.exec(`INSERT INTO map_versions (tenant_id, map_id, version, name, definition, size, digest, cognitive, starts, start_versions, created_by, created_at)
		SELECT v.tenant_id, v.map_id, n, v.name, v.definition, v.size, v.digest, false, '{}', '{}', '', now() FROM map_versions v, generate_series(2, 250) n`)
	require.NoError(t, s.Delete(t.Context(), s.who, gone, nil))
	require.NoError(t, s.Forget(t.Context(), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)))
	require.Zero(t, s.count("map_versions"))
	require.Zero(t, s.count("maps"))
}
