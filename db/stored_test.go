package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
)

// A run that was resolved before the resolution had columns of its own has them after.
func TestMigrationKeepsWhoResolvedARun(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, 21))
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	id, user := uuid.New(), uuid.New()
	_, err = admin.Exec(t.Context(), `
		INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr,
		                  give_up_at, risk_level, operation_type, state, reason, resolved_by, finished_at, origin, user_id, workflow_id)
		VALUES ($1, $2, 'x', 'x', 'shop', 'pay', '{}', '\x00', false, '{}', '', '', now(), 'low', 'write', 'executed', 'seen there', $2, '2026-01-02Z', 'user', $2, 'w')`, id, user)
	require.NoError(t, err)

	require.NoError(t, db.Migrate(t.Context(), d.AdminURL))
	var got string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT concat_ws('|', resolve_reason, reason, (resolved_at = finished_at)::text) FROM runs WHERE id = $1`, id).Scan(&got))
	require.Equal(t, "seen there||true", got)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, 21))
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT reason FROM runs WHERE id = $1`, id).Scan(&got))
	require.Equal(t, "seen there", got)
}

// A run that was under way before runs had a deadline has one after, and can be given up.
func TestMigrationGivesRunsUnderWayADeadline(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, 24))
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	for _, state := range []string{"claimed", "sending", "executed"} {
		_, err = admin.Exec(t.Context(), `
			INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr,
			                  give_up_at, risk_level, operation_type, state, origin, user_id, workflow_id)
			VALUES (gen_random_uuid(), $1, $2, $2, 'shop', 'pay', '{}', '\x00', false, '{}', '', '', now(), 'low', 'write', $2, 'user', $1, 'w')`, uuid.New(), state)
		require.NoError(t, err)
	}
	require.NoError(t, db.Migrate(t.Context(), d.AdminURL))
	var got string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT string_agg(state, ' ' ORDER BY state) FROM runs WHERE expires_at > now()`).Scan(&got))
	require.Equal(t, "claimed sending", got)
}

// An approval from before the kind of its requester was stored names it after.
func TestMigrationKnowsWhichRequestersAreUsers(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, 39))
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	tenant, user := uuid.New(), uuid.New()
	_, err = admin.Exec(t.Context(), `INSERT INTO tenants (id, name) VALUES ($1, 't')`, tenant)
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `INSERT INTO users (id, tenant_id, email, name, role, created_at, joined_at, password_hash) VALUES ($1, $2, 'a@example.com', '', 'owner', now(), now(), 'x')`, user, tenant)
	require.NoError(t, err)
	for id, requester := range map[string]*uuid.UUID{"a key's": new(uuid.New()), "a user's": &user, "nobody's": nil} {
		_, err = admin.Exec(t.Context(), `
			INSERT INTO approvals (id, tenant_id, subject_type, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason, requester, kind)
			VALUES ($1, $2, 'step', $1, '', 'blocked', 'shop', 'pay', '{}', 'low', '', '', $3, 'block')`, id, tenant, requester)
		require.NoError(t, err)
	}
	require.NoError(t, db.Migrate(t.Context(), d.AdminURL))
	var got string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT string_agg(id, ', ' ORDER BY id) FROM approvals WHERE requester_kind = 'user'`).Scan(&got))
	require.Equal(t, "a user's", got)
}
