package app

import (
	"context"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/killswitch"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/process/config"
	"agentruntime/internal/tenant/account"
)

// TestMain makes a child of this program where a pool starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == jqchild.Subcommand {
		if jqchild.Serve(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	testkit.Main(m)
}

// forgotten names the job that deletes the old rows of a table.
var forgotten = map[string]string{
	"idempotency_keys":       "forget idempotency keys",
	"events":                 "forget events",
	"webhook_deliveries":     "forget webhook deliveries",
	"webhook_attempts":       "forget webhook deliveries",
	"request_counters":       "forget counters of requests",
	"mails":                  "forget mail",
	"budget_counters":        "forget counters of budgets",
	"budget_reservations":    "forget counters of budgets",
	"mail_windows":           "forget mail",
	"mail_tokens":            "forget mail",
	"sessions":               "forget sessions",
	"refresh_tokens":         "forget sessions",
	"login_attempts":         "forget sessions",
	"login_addresses":        "forget sessions",
	"kill_switches":          "forget kill switches",
	"api_keys":               "forget sessions",
	"grants":                 "forget grants",
	"policy_windows":         "trim the windows of policies",
	"window_entries":         "trim the windows of policies",
	"window_counts":          "trim the windows of policies",
	"runs_left":              "erase old results",
	"run_files":              "erase old results",
	"run_file_parts":         "erase old results",
	"map_steps":              "erase old executions of Maps",
	"map_values":             "erase old executions of Maps",
	"map_signals":            "erase old executions of Maps",
	"map_waits":              "erase old executions of Maps",
	"model_calls":            "erase old executions of Maps",
	"map_keys":               "forget deleted Maps",
	"maps":                   "forget deleted Maps",
	"map_versions":           "forget deleted Maps",
	"agents":                 "forget deleted agents",
	"agent_versions":         "forget deleted agents",
	"map_changes":            "erase old executions of Maps",
	"customer_facts":         "forget superseded facts",
	"conversations":          "erase old sessions of agents",
	"conversation_entries":   "erase old sessions of agents",
	"conversation_summaries": "erase old sessions of agents",
	"turns":                  "erase old sessions of agents",
	"turn_keys":              "erase old sessions of agents",
	"turn_answers":           "erase old sessions of agents",
	"turn_stream":            "erase old sessions of agents",
	"turn_feedback":          "erase old sessions of agents",
}

// kept says why the rows of a table stay.
var kept = map[string]string{
	"tenants":              "the tenant itself",
	"tenant_keys":          "it opens what is stored",
	"map_change_sets":      "one for a dry run, as its execution stays: without texts",
	"users":                "approvals and audit records name those who have joined; a removal deletes the password",
	"providers":            "until the tenant deletes it",
	"trusted_sources":      "until the tenant deletes the provider",
	"verbs":                "until the tenant deletes the provider",
	"verb_counts":          "a sum over the provider's verbs",
	"provider_documents":   "until the tenant deletes the provider",
	"enabled_providers":    "the tenant's choice",
	"disabled_providers":   "a key imports nothing in the place of what was chosen",
	"circuits":             "one row of a provider that has failed; it goes with the provider",
	"removed_providers":    "an import by a key is compared with what was removed",
	"removed_verbs":        "an import by a key is compared with what was removed",
	"accepted_verbs":       "imports are compared with it, also after a deletion",
	"credentials":          "until the tenant deletes it",
	"credential_digests":   "until the credential goes",
	"runs":                 "the fence: no call runs twice; the job erases its texts",
	"run_keys":             "the fence: no call runs twice",
	"run_erasures":         "the place of the job in the tenant's runs",
	"budgets":              "until the tenant removes it",
	"policies":             "approvals name them, deleted ones too",
	"policy_versions":      "audit records name them; the oldest make room for others",
	"policy_sets":          "one row of the tenant",
	"policy_matches":       "which policies a run matched, as long as the run's row",
	"approvals":            "who decided what; the job erases what they show of the call",
	"approval_decisions":   "who decided what; the job erases edited arguments",
	"audit_records":        "evidence",
	"audit_seals":          "evidence",
	"audit_checkpoints":    "evidence",
	"audit_clusters":       "in which cluster of Postgres records were written",
	"customers":            "until the tenant erases them",
	"customer_identifiers": "until the tenant erases the customer",
	"customer_terms":       "until the tenant erases the customer",
	"customer_tags":        "until the tenant erases the customer",
	"customer_erasures":    "that and when a customer was erased; it names none by the end",
	"webhooks":             "until the tenant deletes it",
	"webhook_readers":      "one row of each webhook",
	"model_providers":      "until the tenant deletes it",
	"map_executions":       "the fence: no name runs twice; the job erases its texts",
	"map_places":           "one row of each execution that has not ended",
	"map_watches":          "one row of the tenant while its executions wait for events",
	"platform_providers":   "the platform's",
	"platform_verbs":       "the platform's",
	"platform_verb_counts": "the platform's",
	"heartbeats":           "one row, which shows that Postgres takes a write",

	"verb_answers":          "until the tenant deletes the provider",
	"platform_verb_answers": "the platform's",
}

func aWorker(t *testing.T, d testkit.DB) *App {
	t.Helper()
	key := func(c string) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32))) }
	a, err := New(t.Context(), config.Config{
		Env: "development", StartLane: "split", DatabaseURL: d.AppURL, TemporalAddress: "127.0.0.1:1", TemporalNamespace: "default",
		CodecKey: key("c"), CodecKeyID: "codec-1", VaultKeys: "k1:" + key("v"), AuditSeed: key("a"), KeyPepper: key("p"), ResultDays: 30, ProviderTimeout: 20 * time.Second,
	}, Roles{Worker: true}, quiet())
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// Each table is kept for a reason, or a job deletes its old rows: a row as old as can be is in each
// table, and then the jobs run.
func TestEveryTableIsForgottenOrKeptForAReason(t *testing.T) {
	t.Parallel()
	w := filled(t, map[string]string{"map_executions.erased_at": "NULL"})
	tables, admin, d := w.tables, w.admin, w.db

	a := aWorker(t, d)
	run := map[string]bool{"erase old results": true}
	for _, name := range forgotten {
		run[name] = true
	}
	for _, j := range a.workerJobs() {
		if run[j.name] {
			require.NoError(t, j.once(t.Context()), j.name)
			delete(run, j.name)
		}
	}
	require.Empty(t, run, "no such jobs")
	page, err := os.ReadFile("../../../docs/operate/operations.md")
	require.NoError(t, err)
	for _, table := range tables {
		var rows int
		require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows))
		job, reason := forgotten[table], kept[table]
		switch {
		case job != "":
			require.Zero(t, rows, "%s has an old row after %q", table, job)
			require.Contains(t, string(page), "`"+job+"`", "docs/operate/operations.md names the job")
		case reason != "":
			require.Equal(t, 1, rows, "%s is to be kept", table)
		default:
			t.Errorf("%s: say in this test which job deletes its old rows, or why they stay, and in docs/operate/operations.md", table)
		}
		require.Contains(t, string(page), "`"+table+"`", "docs/operate/operations.md says how long the rows of each table are kept")
	}
	for table := range forgotten {
		require.Contains(t, tables, table)
		require.Empty(t, kept[table])
	}
	for table := range kept {
		require.Contains(t, tables, table)
	}
	require.Len(t, w.list("SELECT id::text FROM runs WHERE args = '' AND result IS NULL AND erased_at IS NOT NULL"), 1)
}

func TestJobsDeleteNothingBeforeItsTime(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	d := testkit.Database(t)
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	defer admin.Close(context.WithoutCancel(t.Context()))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tenant, user := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	exec := func(sql string, args ...any) {
		_, err := admin.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	exec(`INSERT INTO tenants (id, name) VALUES ($1, 'x')`, tenant)
	exec(`INSERT INTO users (id, tenant_id, email, name, password_hash, role, created_at, joined_at) VALUES ($1, $2, 'a@b.c', 'A', 'x', 'owner', now(), now())`, user, tenant)
	exec(`INSERT INTO sessions (id, tenant_id, user_id, created_at, expires_at) VALUES (gen_random_uuid(), $1, $2, $3, $3)`, tenant, user, at)
	exec(`INSERT INTO login_attempts (subject, failures, window_ends_at) VALUES (sha256('x'), 1, $1)`, at)
	exec(`INSERT INTO login_addresses (tenant_id, user_id, subject, last_login_at) VALUES ($1, $2, sha256('x'), $3)`, tenant, user, at)
	exec(`INSERT INTO kill_switches (id, tenant_id, scope, covers, reason, set_by, set_at, lifted_by, lifted_at) VALUES (gen_random_uuid(), $1, 'tenant', 't', '', $2, $3, $2, $3)`, tenant, user, at)
	exec(`INSERT INTO kill_switches (id, tenant_id, scope, covers, reason, set_by, set_at) VALUES (gen_random_uuid(), $1, 'tenant', 't', '', $2, $3)`, tenant, user, at)
	// Of the keys, grants and users, those that are in use stay, and so does a removed user who had joined.
	for name, revoked := range map[string]*time.Time{"active": nil, "revoked": &at} {
		exec(`INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, allowed_origins, created_by, created_at, revoked_at)
			VALUES (gen_random_uuid(), $1, sha256($2), '', '', '{}', '{}', $3, now(), $4)`, tenant, []byte(name), user, revoked)
	}
	invited := `INSERT INTO users (id, tenant_id, email, name, role, created_at, joined_at, removed_at, invitation_hash, invitation_expires_at) VALUES (gen_random_uuid(), $1, $2, '', 'member', $3, $4, $5, $6, $7)`
	exec(invited, tenant, "withdrawn@b.c", at, nil, at, nil, nil)
	exec(invited, tenant, "invited@b.c", at, nil, nil, make([]byte, 32), at)
	exec(invited, tenant, "left@b.c", at, at, at, nil, nil)
	given := `INSERT INTO grants (id, tenant_id, provider, verb, conditions, reason, created_by, expires_at, max_uses, uses, revoked_at) VALUES (gen_random_uuid(), $1, 'p', 'v', '[]', '', $2, $3, 1, $4, $5)`
	exec(given, tenant, user, at, 0, nil)
	exec(given, tenant, user, time.Now().Add(time.Hour), 0, at)
	exec(given, tenant, user, time.Now().Add(time.Hour), 1, nil) // used up: it ends with its time
	for _, step := range []struct {
		after time.Duration
		left  map[string]int
	}{
		{-time.Second, map[string]int{"sessions": 1, "login_attempts": 1, "login_addresses": 1, "kill_switches": 2, "api_keys": 2, "users": 4, "grants": 3}},
		{time.Second, map[string]int{"sessions": 0, "login_attempts": 0, "login_addresses": 1, "kill_switches": 2}},
		{90*day - time.Second, map[string]int{"login_addresses": 1, "kill_switches": 2, "api_keys": 2, "users": 4, "grants": 3}},
		{90*day + time.Second, map[string]int{"login_addresses": 0, "kill_switches": 1, "api_keys": 1, "users": 3, "grants": 1}}, // one is still set
	} {
		require.NoError(t, account.Forget(t.Context(), d.Pool, at.Add(step.after)))
		require.NoError(t, killswitch.Forget(t.Context(), d.Pool, at.Add(step.after)))
		require.NoError(t, desk.Forget(t.Context(), d.Pool, at.Add(step.after)))
		for table, want := range step.left {
			var rows int
			require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows))
			require.Equal(t, want, rows, "%s after %s", table, step.after)
		}
	}
}
