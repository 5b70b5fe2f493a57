package app

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
)

// erased has the tables from which an erasure takes what is personal, and the condition that finds
// what it must not leave there.
var erased = map[string]string{
	"runs":                   "args <> '' OR edited_args <> '' OR result IS NOT NULL OR metadata::text LIKE '%canary%' OR error_details IS NOT NULL OR resolve_reason <> '' OR credential_label <> ''",
	"approvals":              "args LIKE '%canary%' OR explanation::text LIKE '%canary%' OR request IS NOT NULL",
	"approval_decisions":     "edited_args IS NOT NULL OR response IS NOT NULL",
	"credentials":            "true",
	"credential_digests":     "true",
	"grants":                 "customer_id LIKE '%canary%' OR conditions::text LIKE '%canary%' OR reason LIKE '%canary%' OR revoked_at IS NULL",
	"events":                 "type <> 'customer.erased'",
	"webhook_deliveries":     "true",
	"webhook_attempts":       "true",
	"run_files":              "true",
	"run_file_parts":         "true",
	"map_executions":         "payload <> '' OR output IS NOT NULL OR error IS NOT NULL OR state IS NOT NULL OR metadata::text LIKE '%canary%' OR customer IS NOT NULL",
	"map_steps":              "true",
	"map_values":             "true",
	"map_signals":            "true",
	"map_waits":              "true",
	"model_calls":            "true",
	"map_changes":            "true",
	"customer_facts":         "true",
	"conversations":          "true",
	"conversation_entries":   "true",
	"conversation_summaries": "true",
	"turns":                  "true",
	"turn_keys":              "true",
	"turn_answers":           "true",
	"turn_stream":            "true",
	"turn_feedback":          "true",
	"customer_erasures":      "names <> '{}'",
}

// impersonal says why an erasure need not look at a table.
var impersonal = map[string]string{
	"customers":            "deleted with the record, before the request is answered; tests of package customer",
	"customer_identifiers": "deleted with the record",
	"customer_terms":       "deleted with the record",
	"customer_tags":        "deleted with the record",
	"audit_records":        "masked, with ids and names of fields; evidence is not erased",
	"audit_seals":          "hashes",
	"audit_checkpoints":    "hashes",
	"audit_clusters":       "names of clusters of Postgres",
	"run_keys":             "ids; a caller chooses ids that tell nothing",
	"run_erasures":         "ids",
	"runs_left":            "ids",
	"map_change_sets":      "ids",
	"policy_matches":       "ids",
	"policy_windows":       "hashes of what policies ask for",
	"window_entries":       "keyed digests and numbers, for as long as the window",
	"window_counts":        "keyed digests and numbers, for as long as the window",
	"mails":                "to users of the tenant; no mail goes to customers",
	"mail_tokens":          "of users of the tenant",
	"mail_windows":         "keyed hashes",
	"users":                "people of the tenant, not its customers",
	"sessions":             "of users of the tenant",
	"refresh_tokens":       "of users of the tenant",
	"login_attempts":       "keyed hashes",
	"login_addresses":      "keyed hashes",
	"idempotency_keys":     "keyed hashes and ids",
	"request_counters":     "numbers",
	"budgets":              "numbers",
	"budget_counters":      "numbers",
	"budget_reservations":  "numbers and ids",
	"circuits":             "kinds of failures and times",
	"model_providers":      "addresses that the tenant's people name",
	"kill_switches":        "written by the tenant's people about calls, verbs and providers",
	"tenants":              "the tenant itself",
	"tenant_keys":          "keys",
	"api_keys":             "the tenant's",
	"webhooks":             "the tenant's",
	"webhook_readers":      "ids: how far events were read",
	"policies":             "written by the tenant's people for all calls",
	"policy_versions":      "written by the tenant's people for all calls",
	"policy_sets":          "numbers and names of arguments",
	"map_watches":          "numbers",
	"map_places":           "a keyed digest, until the execution ends",
	"map_keys":             "ids; a caller chooses ids that tell nothing",
	"maps":                 "written by the tenant's people for all calls",
	"map_versions":         "written by the tenant's people for all calls",
	"agents":               "written by the tenant's people for all messages",
	"agent_versions":       "written by the tenant's people for all messages",
	"providers":            "of an API",
	"verbs":                "of an API",
	"verb_counts":          "of an API",
	"provider_documents":   "of an API",
	"enabled_providers":    "of an API",
	"disabled_providers":   "of an API",
	"removed_providers":    "of an API",
	"removed_verbs":        "of an API",
	"accepted_verbs":       "of an API",
	"platform_providers":   "of an API",
	"platform_verbs":       "of an API",
	"platform_verb_counts": "of an API",
	"heartbeats":           "of no tenant",
	"trusted_sources":      "of an API",

	"verb_answers":          "of an API",
	"platform_verb_answers": "of an API",
}

// Each table gives up what is personal to an erasure, or there is a reason why nothing personal is
// in it. All rows name the customer wherever they can: by any text, before the erasure is asked for, or
// by its id after that, as what a message does that is under way then.
func TestErasureReachesEveryTableThatHasSomethingPersonal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, askedAt string }{
		"by any text, before": {"canary", "2026-01-02Z"},
		"by its id, since":    {literals["uuid"], "1969-12-31Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named := `{"customer_id":"` + c.text + `"}`
			w := filled(t, map[string]string{
				"text": c.text, "text[]": "{" + c.text + "}", "json": named, "jsonb": named,
				"customer_erasures.names": "{canary," + literals["uuid"] + "}", "customer_erasures.completed_at": "NULL", "customer_erasures.requested_at": c.askedAt, "customer_erasures.erased": "{}",
				"grants.revoked_at": "NULL",
			})
			w.requireErased()
		})
	}
}

// requireErased erases the customer of all rows.
func (w full) requireErased() {
	t := w.t
	t.Helper()
	a := aWorker(t, w.db)
	id := uuid.MustParse(literals["uuid"])
	for done := false; !done; {
		step, err := a.customers.EraseNext(t.Context(), flow.CustomerRef{TenantID: id, CustomerID: id})
		require.NoError(t, err)
		require.False(t, step.Waits)
		done = step.Done
	}
	for _, table := range w.tables {
		left, personal := erased[table]
		switch {
		case personal:
			require.Empty(t, impersonal[table])
			require.Equal(t, []string{"0"}, w.list("SELECT count(*)::text FROM "+table+" WHERE ("+left+")"), table)
		case impersonal[table] == "":
			t.Errorf("%s: say in this test what an erasure must not leave there, and add it to a customer.Holder; or why nothing personal is in it", table)
		}
	}
	for _, list := range []map[string]string{erased, impersonal} {
		for table := range list {
			require.Contains(t, w.tables, table)
		}
	}
}
