package db_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	require.NoError(t, db.MigrateDownAndUpEach(t.Context(), d.AdminURL))
	require.NoError(t, db.Migrate(t.Context(), d.AdminURL), "up again from nothing")
}

// Each table with a tenant has row-level security, enabled and forced, and each
// view runs with the rights of the role that asks.
func TestEveryTenantTableIsGuarded(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())

	rows, err := admin.Query(t.Context(), `
		SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (
		           SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND pg_get_expr(p.polqual, p.polrelid) LIKE '%app_tenant()%')
		  FROM pg_class c
		 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND (c.relname = 'tenants' OR EXISTS (
		       SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped))`)
	require.NoError(t, err)
	tables := 0
	for rows.Next() {
		var name string
		var guarded bool
		require.NoError(t, rows.Scan(&name, &guarded))
		require.True(t, guarded, "table %s has no forced row-level security by tenant", name)
		tables++
	}
	require.NoError(t, rows.Err())
	require.GreaterOrEqual(t, tables, 8)

	// Each policy that shows a tenant rows of others is in this list, with its reason.
	known := map[string]string{
		"agents.sweep_select":              "a worker forgets those that were deleted",
		"api_keys.presented":               "the key whose hash a caller presents",
		"approvals.approvals_sweep":        "the sweeper reads the pending ones of all tenants",
		"approvals.platform_pending":       "the owner of the tables, when the platform's provider changes",
		"approvals.platform_recheck":       "the owner of the tables, when the platform's provider changes",
		"customer_erasures.sweep_select":   "a job starts the erasures whose start was lost",
		"customer_facts.sweep_select":      "the job that forgets those that others have superseded",
		"policy_windows.sweep_select":      "the jobs that fill and trim the windows of policies",
		"events.sweep_delete":              "the job that forgets those of the month before",
		"events.sweep_select":              "the job that forgets those of the month before",
		"idempotency_keys.sweep_delete":    "the job that forgets those of the day before",
		"idempotency_keys.sweep_select":    "the job that forgets those of the day before",
		"login_addresses.presented":        "the addresses of the user whose email a caller presents",
		"mail_tokens.presented":            "the token of a mail whose hash a caller presents",
		"mail_tokens.sweep_delete":         "the job that forgets those that have expired",
		"mail_tokens.sweep_select":         "the job that forgets those that have expired",
		"api_keys.sweep_delete":            "the job that forgets those that were revoked",
		"api_keys.sweep_lock":              "the job that forgets those that were revoked",
		"api_keys.sweep_select":            "the job that forgets those that were revoked",
		"grants.sweep_delete":              "the job that forgets those that have ended",
		"grants.sweep_lock":                "the job that forgets those that have ended",
		"grants.sweep_select":              "the job that forgets those that have ended",
		"users.sweep_delete":               "the job that forgets invitations that were withdrawn",
		"users.sweep_lock":                 "the job that forgets invitations that were withdrawn",
		"users.sweep_select":               "the job that forgets invitations that were withdrawn",
		"kill_switches.sweep_delete":       "the job that forgets those that were lifted",
		"kill_switches.sweep_lock":         "the job that forgets those that were lifted",
		"kill_switches.sweep_select":       "the job that forgets those that were lifted",
		"login_addresses.sweep_delete":     "the job that forgets those that are no longer known",
		"login_addresses.sweep_lock":       "the job that forgets those that are no longer known",
		"login_addresses.sweep_select":     "the job that forgets those that are no longer known",
		"sessions.sweep_delete":            "the job that forgets those that have expired",
		"sessions.sweep_lock":              "the job that forgets those that have expired",
		"sessions.sweep_select":            "the job that forgets those that have expired",
		"mails.asked":                      "what a stranger asks for by an address, which they only insert",
		"mails.sweep_delete":               "the job that forgets those that have ended",
		"mails.sweep_select":               "the sender takes what is due, of all tenants",
		"mails.sweep_update":               "the sender notes what became of it",
		"webhooks.sweep_select":            "the dispatcher reads where deliveries of all tenants go",
		"webhooks.sweep_update":            "the dispatcher notes their last success",
		"webhook_readers.sweep_select":     "the dispatcher reads events for the webhooks of all tenants",
		"webhook_readers.sweep_update":     "the dispatcher reads events for the webhooks of all tenants",
		"webhook_deliveries.sweep_insert":  "the dispatcher writes those of what it has read",
		"webhook_deliveries.sweep_select":  "the dispatcher claims those of all tenants",
		"webhook_deliveries.sweep_update":  "the dispatcher claims and settles those of all tenants",
		"webhook_deliveries.sweep_delete":  "the job that forgets those of the month before",
		"webhook_attempts.sweep_select":    "the job that forgets those of the month before",
		"webhook_attempts.sweep_insert":    "the dispatcher records attempts of all tenants",
		"webhook_attempts.sweep_delete":    "the job that forgets those of the month before",
		"refresh_tokens.presented":         "the token whose hash a caller presents",
		"budget_counters.sweep_delete":     "the job that deletes those of months that are over",
		"budget_counters.sweep_lock":       "the job that deletes those of months that are over",
		"budget_counters.sweep_select":     "the job that deletes them, and the one that tells tenants of their budgets",
		"budget_reservations.sweep_delete": "the job that deletes those that ended",
		"budget_reservations.sweep_lock":   "the job that deletes those that ended",
		"budget_reservations.sweep_select": "the job that deletes them, and the one that gives back those of crashed workers",
		"request_counters.sweep_delete":    "the job that deletes those of days that are over",
		"request_counters.sweep_lock":      "the job that deletes those of days that are over",
		"request_counters.sweep_select":    "the job that deletes those of days that are over",
		"run_erasures.seal_select":         "the job that erases results reads which tenants have old ones",
		"run_files.sweep_delete":           "the job that deletes files that no result names",
		"run_files.sweep_select":           "the job that deletes files that no result names",
		"runs.runs_sweep":                  "the sweeper reads the unfinished ones of all tenants",
		"map_executions.sweep_select":      "jobs start those whose start was lost, and erase what is old",
		"map_change_sets.sweep_select":     "a job starts the workflows that apply them, where the start was lost",
		"map_places.sweep_select":          "a job looks which executions wait although a place is free",
		"map_waits.sweep_select":           "a job looks which tenants have events that executions wait for",
		"conversations.sweep_select":       "a job deletes those without a message for long",
		"turns.sweep_select":               "a job starts those whose start was lost; the one above looks which are open",
		"maps.sweep_select":                "a job forgets those that were deleted long ago",
		"map_watches.sweep_select":         "a job looks which tenants have events that executions wait for",
		"tenants.tenants_seal":             "the sealer reads which tenants there are",
		"users.invited":                    "the user whose invitation a caller presents",
		"users.invited_by_mail":            "the user whose invitation a caller presents",
		"users.presented":                  "the user whose address a caller presents",
		"credentials.credentials_notice":   "the job that tells of those that expire",
		"credentials.credentials_rewrap":   "the operator's command that wraps keys again",
		"tenant_keys.tenant_keys_rewrap":   "the operator's command that wraps keys again",
		"audit_records.audit_records_seal": "the sealer reads which tenants have new records",
	}
	rows, err = admin.Query(t.Context(), `
		SELECT tablename || '.' || policyname FROM pg_policies
		 WHERE schemaname = 'public' AND NOT (coalesce(qual, '') LIKE '%app_tenant()%' OR coalesce(with_check, '') LIKE '%app_tenant()%') ORDER BY 1`)
	require.NoError(t, err)
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, slices.Sorted(maps.Keys(known)), others)

	// The tables of no tenant are the platform's, and the service's role only reads them.
	rows, err = admin.Query(t.Context(), `
		SELECT c.relname FROM pg_class c
		 WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname LIKE 'platform\_%'
		   AND NOT has_table_privilege('agentruntime_app', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')`)
	require.NoError(t, err)
	readOnly, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"platform_providers", "platform_verbs", "platform_verb_counts", "platform_verb_answers"}, readOnly)

	var open int
	require.NoError(t, admin.QueryRow(t.Context(), `
		SELECT count(*) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace
		   AND NOT coalesce('security_invoker=true' = ANY (reloptions), false)`).Scan(&open))
	require.Zero(t, open, "a view without security_invoker shows all tenants' rows")
}

func TestTheServicesRoleCanNeitherBypassNorOwn(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	conn, err := pgx.Connect(t.Context(), d.AppURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var bypass, super bool
	var owned int
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT rolbypassrls, rolsuper, (SELECT count(*) FROM pg_class WHERE relowner = r.oid)
		  FROM pg_roles r WHERE rolname = current_user`).Scan(&bypass, &super, &owned))
	require.False(t, bypass)
	require.False(t, super)
	require.Zero(t, owned)
}

func TestATenantSeesItsOwnRowsOnly(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	q := dbsqlc.New()
	mine, other := uuid.New(), uuid.New()
	require.NoError(t, q.InsertTenant(t.Context(), d.Tenant(mine), dbsqlc.InsertTenantParams{ID: mine, Name: "mine"}))

	_, err := q.GetTenant(t.Context(), d.Tenant(other), mine)
	require.True(t, db.IsNoRows(err), "another tenant's transaction sees the row: %v", err)
	err = q.InsertTenant(t.Context(), d.Tenant(other), dbsqlc.InsertTenantParams{ID: uuid.New(), Name: "foreign"})
	require.ErrorContains(t, err, "row-level security")

	// The setting ends with the statement's transaction: the connection goes back clean.
	require.NoError(t, d.InTenant(t.Context(), mine, func(tx pgx.Tx) error {
		got, err := q.GetTenant(t.Context(), tx, mine)
		require.Equal(t, "mine", got.Name)
		return err
	}))
	for range 20 {
		_, err = q.GetTenant(t.Context(), d.Tenant(other), mine)
		require.True(t, db.IsNoRows(err))
	}
}

// A crash can set the sequence of goose's table back; see catchUpVersionIDs.
func TestMigrationContinuesAfterItsSequenceWasSetBack(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	newest, err := db.Newest(d.AdminURL)
	require.NoError(t, err)
	require.NoError(t, db.MigrateDown(t.Context(), d.AdminURL, newest-1))
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	_, err = admin.Exec(t.Context(), "SELECT setval('goose_db_version_id_seq', 1)")
	require.NoError(t, err)
	require.NoError(t, db.Migrate(t.Context(), d.AdminURL))
}

// Functions are in db/functions, one file each. app_setting and app_tenant are not: the
// policies of row-level security depend on them.
func TestEveryFunctionHasItsFile(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	rows, err := admin.Query(t.Context(), `
		SELECT p.proname::text, p.prosrc FROM pg_proc p
		 WHERE p.pronamespace = 'public'::regnamespace AND p.proname NOT IN ('app_setting', 'app_tenant')`)
	require.NoError(t, err)
	found := 0
	var name, source string
	_, err = pgx.ForEachRow(rows, []any{&name, &source}, func() error {
		found++
		text, err := os.ReadFile(filepath.Join("functions", name+".sql"))
		require.NoError(t, err, "function %s has no file in db/functions", name)
		require.Contains(t, string(text), source, "the database has another body of %s than db/functions", name)
		return nil
	})
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join("functions", "*.sql"))
	require.NoError(t, err)
	require.Len(t, files, found)
}
