package db_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit"
)

// The rows of the tests below. Each column of one row has the value of its type, so the rows
// of all tables name each other, and so does a parameter of that type.
const (
	ofTenant = "00000000-0000-7000-8000-000000000001"
	knownID  = "00000000-0000-7000-8000-000000000002"
	freshID  = "00000000-0000-7000-8000-000000000003"
)

// values are what one call says, by the type of the parameter.
type values struct{ text, id, number, bytes string }

var (
	known = values{"x", knownID, "1", `\x00`} // of the row that is there
	fresh = values{"new", freshID, "2", `\x01`}
)

// of returns the literal for a parameter or a column by its name and type.
func (v values) of(name, typ string) string {
	literal := map[string]string{
		"uuid": v.id, "text": v.text, "integer": v.number, "bigint": v.number, "double precision": v.number, "numeric": v.number, "boolean": "false",
		"timestamp with time zone": "2099-01-01Z", "bytea": v.bytes, "json": "{}", "jsonb": "{}", "xid8": v.number,
		"text[]": "{" + v.text + "}", "uuid[]": "{" + v.id + "}", "integer[]": "{1,1,1}", "bytea[]": `{"\` + v.bytes + `"}`,
		"bigint[]": "{" + v.number + "}", "timestamp with time zone[]": "{2099-01-01Z}",
	}[typ]
	switch name {
	case "TenantID", "tenantID", "tenant_id", "tenant":
		literal = ofTenant
	case "Call":
		literal = fmt.Sprintf(`{"id": %q, "execution_id": %q, "provider": "x", "verb": "x", "dry_run": false, "request_id": "", "source_addr": "",
			"give_up_at": "2099-01-01Z", "expires_at": "2099-01-01Z", "origin": "key", "workflow_id": "x",
			"agent_id": %[1]q, "conversation": %[1]q, "streamed": false, "map_id": %[1]q, "version": 1, "machine": 1, "map_type": "x", "depth": 0}`, v.id, v.text)
	case "Steps":
		literal = "[]"
	case "Windows":
		hex := strings.TrimPrefix(v.bytes, `\x`)
		literal = fmt.Sprintf(`[{"window": %[1]q, "value": %[1]q, "up": "1", "down": "0", "counts": true, "reads": [{"per": 1, "low": [], "high": []}]}]`, hex)
	case "Runs":
		literal = fmt.Sprintf(`[{"run": %q, "value": %q, "up": "1", "down": "0", "minute": 1, "done": true}]`, v.id, strings.TrimPrefix(v.bytes, `\x`))
	case "Ask": // for what a call needs too
		literal = "true"
	case "Details", "Quarantines":
		if typ == "text[]" {
			literal = `{"{}"}`
		}
	case "Provider", "Verb", "Name", "Slug": // a new run of a verb that is there
		if typ == "text" {
			literal = known.text
		}
	}
	if literal == "" {
		panic("no value for " + name + " of type " + typ)
	}
	return "'" + literal + "'::" + typ
}

// world is a database whose tables are filled step by step.
type world struct {
	*testing.T
	testkit.DB
	admin *pgx.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, DB: testkit.Database(t)}
	conn, err := pgx.Connect(t.Context(), w.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	w.admin = conn
	// Rows need not make sense: what counts is where they are.
	w.exec("SET session_replication_role = replica")
	w.exec("GRANT SET ON PARAMETER session_replication_role TO agentruntime_app")
	for _, drop := range w.list("SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace") {
		w.exec(drop)
	}
	for _, table := range w.tables() {
		w.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
	}
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.admin.Exec(w.Context(), sql, args...)
	require.NoError(w, err, sql)
}

func (w *world) list(sql string, args ...any) []string {
	w.Helper()
	rows, err := w.admin.Query(w.Context(), sql, args...)
	require.NoError(w, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w, err)
	return out
}

func (w *world) tables() []string {
	return w.list(`SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND EXISTS (
		SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) ORDER BY 1`)
}

// insert writes the known row of each table.
func (w *world) insert() {
	w.Helper()
	for _, table := range w.tables() {
		var cols, vals []string
		for _, c := range w.columns(table) {
			name, typ, _ := strings.Cut(c, " ")
			lit, ok := special[table+"."+name]
			if !ok {
				lit, ok = special[name]
			}
			if !ok {
				lit = known.of(name, typ)
			}
			cols, vals = append(cols, name), append(vals, lit)
		}
		w.exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(cols, ", "), strings.Join(vals, ", ")))
	}
}

func (w *world) columns(table string) []string {
	return w.list(`SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table)
}

// special are the columns whose value is not that of their type.
var special = map[string]string{
	"revoked_at": "NULL", "users.removed_at": "NULL", "used_at": "NULL", "customer_id": "NULL",
	"customer_identifiers.customer_id": "'" + knownID + "'", "customer_terms.customer_id": "'" + knownID + "'", "customer_tags.customer_id": "'" + knownID + "'",
	"customer_erasures.customer_id":   "'" + knownID + "'",
	"customer_identifiers.identifier": "'id:x'",
	"runs.state":                      "'claimed'", "runs.held": "true", "approvals.status": "'approved'", "credentials.status": "'active'",
	"runs.parent_id": "NULL", "approval_decisions.decision": "'approve'",
}

// differs are columns of the other rows that differ from row to row, beside those of unique
// indexes: a tenant has few of their value by its quota, or by the nature of the thing.
var differs = map[string][]string{
	"customer_identifiers": {"customer_id"}, "credentials": {"provider"}, "grants": {"verb"}, "approvals": {"subject_id"}, "approval_decisions": {"approval_id"},
	"map_keys": {"execution"}, "turn_keys": {"turn"}, "conversations": {"customer"}, "turns": {"conversation"}, "webhooks": {"tenant_id"}, "credential_digests": {"credential_id"}, "policy_versions": {"policy_id"}, "sessions": {"user_id"}, "refresh_tokens": {"session_id"}, "policy_matches": {"run_id"},
}

// alike are columns of unique indexes that do not differ from row to row: a tenant has many rows of
// their value.
var alike = map[string][]string{"map_keys": {"map_id"}}

// others are values of a type that no other row has.
var others = map[string]string{
	"uuid": "gen_random_uuid()", "text": "gen_random_uuid()::text", "bytea": "sha256(gen_random_uuid()::text::bytea)",
	"integer": "(random() * 2e9)::integer", "bigint": "(random() * 1e18)::bigint",
}

// grow adds n rows to each table that are like the known one, of the same tenant.
func (w *world) grow(n int) {
	w.Helper()
	for _, table := range w.tables() {
		unique := w.list(`SELECT DISTINCT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
			WHERE i.indrelid = $1::regclass AND i.indisunique AND a.attname <> 'tenant_id'`, table)
		if len(unique) == 0 {
			continue // one row of each tenant
		}
		unique = append(unique, differs[table]...)
		var vals []string
		for _, c := range w.columns(table) {
			name, typ, _ := strings.Cut(c, " ")
			val := "k." + name
			if other := others[typ]; other != "" && slices.Contains(unique, name) && !slices.Contains(alike[table], name) {
				val = other
			}
			vals = append(vals, val)
		}
		w.exec(fmt.Sprintf("INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM (SELECT * FROM %[1]s LIMIT 1) k, generate_series(1, %[4]d) ON CONFLICT DO NOTHING",
			table, strings.Join(w.names(table), ", "), strings.Join(vals, ", "), n))
	}
	// Each change leaves its entries in the indexes that the row no longer belongs to.
	w.exec("UPDATE runs SET state = 'sending' WHERE id <> $1", knownID)
	w.exec("UPDATE runs SET state = 'executed' WHERE id <> $1", knownID)
	w.exec("UPDATE approvals SET status = 'pending', recheck = true WHERE id <> 'x'")
	w.exec("UPDATE approvals SET status = 'approved', recheck = false WHERE id <> 'x'")
}

func (w *world) names(table string) []string {
	var out []string
	for _, c := range w.columns(table) {
		name, _, _ := strings.Cut(c, " ")
		out = append(out, name)
	}
	return out
}

// Bounds of the test. A statement that reads an index of a grown table reads at least
// grown / 70 blocks, and one that reads its rows grown blocks. A claim writes to 13 indexes,
// which makes most of its 105.
const (
	grown      = 10_000
	mostBlocks = 120
)

// readsMany are the statements whose work may grow with a table of the tenant, by the reason.
var readsMany = map[string][]string{
	"what the step machine has under way: waits for events": {"ListMapWaits"},
	"a list, planned for each of its filters, with a limit of time": {
		"ListRuns", "ListApprovals", "PendingApprovals", "ListCredentials", "ListGrants", "ListKillSwitches", "ListPolicies", "ListProviders", "ListOfferedProviders", "ListUsers", "ListPolicyVersions", "ListAPIKeys",
		"EventsBefore", "EventsAfter", "EventsAwaited", "ExecutedAwaited", "WritesUnderWay", "ListTurns", "RunsOfTurns", "FeedbackOfTurns", "ListModelProviders", "ListMaps", "ListMapVersions", "ListAgents", "ListAgentVersions", "ListMapExecutions", "MapsBelow", "ListMapSteps", "MapStepStates", "MapStepInputs", "PendingOfMap", "ListCustomers", "ListTaggedCustomers", "SearchCustomers", "ListFacts",
	},
	"a batch of an erasure, planned for each": {"EraseRuns", "EraseRunFiles", "EraseOldRuns", "EraseApprovals", "EraseEdits", "EraseGrants", "EraseCustomerEvents", "EraseEventsOfExecutions", "CredentialsOfCustomer", "RunsToErase", "MapsOfCustomer", "HasOpenMapOfCustomer", "EraseMaps", "DeleteMapSteps", "DeleteMapValues", "DeleteMapSignals", "DeleteMapChanges", "ForgetMapChangeSets", "DeleteModelCalls", "StopMapWaits", "EraseApprovalsOfMaps", "EraseDecisionsOfMaps", "LockConversationsOfCustomer", "HasConversationOfCustomer", "DeleteConversations", "LockOldConversations", "EraseFactsOf"},
	"a count or a scan of a period, with a limit of time": {
		"CountApprovals", "CountAuditRecords", "CountRunsBetween", "RunsToJudge", "SampleRuns", "PolicyCoverage", "AuditCheckpoints",
	},
	"what a quota bounds: users, policies, providers, verbs, Maps, budgets, facts about a customer": {
		"ListBudgets", "FactsInUse", "FactsOfTurn", "WriteFact", "MoveFacts", "NoteFactsUsed", "ForgetFacts",
		"ToolProviders", "ToolVerbs", "ToolPlatformVerbs", "TrustedVerbs", "CountEligible", "CountOtherOwners", "TenantUsers", "LoadPolicySet", "ConnectedProviders", "OwnConnectedProviders", "ReachOfProviders", "MissingProviders",
		"TakeMapPlace", "PromoteMapPlaces", "FreeMapPlace", "StartingMaps", "MapStarting", "MissingDomains", "MissingVerbs", "PoliciesOfAction", "CountMatchedVerbs", "MatchedSchemas", "CountVerbs", "KnownVerbs", "RemovedVerbs", "NamingVerbs", "LockUsers", "RevokeSessionsOf",
	},
	"who has written a call: its executions, 20 at most":                              {"TakenGrant"},
	"what quotas of policies, of their versions and of lifted kill switches bound":    {"ForgetPolicyVersions", "ForgetLiftedBeyond"},
	"what the mails of an hour bound, and the tokens' time":                           {"VoidMailTokens"},
	"a batch of a job that forgets a deleted Map: it reads all names of its triggers": {"ForgetMapKeys"},
	"a worker that goes over all tenants, or over what was written since": {
		"OldConversations", "SupersededFacts", "KeysThatWait", "OpenErasures", "LookAtDeletedMap", "WatchesDue", "TellMapWaits", "QueueDeliveries", "ApprovalsToRecheck", "AuditAppended", "AuditToSeal", "AuditToSealAnew", "CredentialsToRewrap", "TenantKeysToRewrap",
	},
}

// notOurs are the statements that the service's role may not execute for a tenant.
var notOurs = []string{
	"UpsertPlatformProvider", "DeletePlatformProvider", "InsertPlatformVerbs", "DeletePlatformVerbs", "InsertPlatformVerbAnswers", "DeletePlatformVerbAnswers", "CountPlatformVerbs", "DeletePlatformCounts",
	"InsertTenant", // at a sign-up, within SignUp
}

// bounded returns the statements that must read little.
func bounded(t *testing.T, all []statement) []statement {
	t.Helper()
	other := slices.Clone(notOurs)
	for _, names := range readsMany {
		other = append(other, names...)
	}
	for _, name := range other {
		require.True(t, slices.ContainsFunc(all, func(st statement) bool { return st.name == name }), "no statement %s", name)
	}
	return slices.DeleteFunc(slices.Clone(all), func(st statement) bool { return slices.Contains(other, st.name) })
}

// A connection plans a statement once. So each is planned here for empty and for small
// tables, and executed on grown ones. Lists aside, no statement may read more than a few
// blocks, whichever plan it kept.
func TestStatementsReadLittleOfGrownTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := statements(t)
	require.Greater(t, len(all), 150)
	// An old snapshot keeps dead entries, as a long export does.
	old, err := pgx.Connect(t.Context(), w.AdminURL)
	require.NoError(t, err)
	defer old.Close(context.WithoutCancel(t.Context()))
	_, err = old.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM runs")
	require.NoError(t, err)

	planned := map[string]*session{"empty tables": prepare(t, w.AppURL, all)}
	w.insert()
	planned["one row"] = prepare(t, w.AppURL, all)
	w.grow(10)
	w.exec("ANALYZE")
	planned["ten rows"] = prepare(t, w.AppURL, all)
	w.grow(grown)
	var faults []string
	for _, st := range bounded(t, all) {
		for tables, s := range planned {
			done := 0
			for _, v := range []values{known, fresh} {
				// A function plans its statements again after an ANALYZE, which reads the catalog.
				_, _ = s.blocks(st, v)
				n, err := s.blocks(st, v)
				if err == nil {
					done++
				}
				if n > mostBlocks {
					faults = append(faults, fmt.Sprintf("%s of %q, planned for %s, reads %d blocks", st.name, v.text, tables, n))
				}
			}
			if done == 0 {
				faults = append(faults, st.name+" was not executed")
			}
		}
	}
	require.Empty(t, faults)
}
