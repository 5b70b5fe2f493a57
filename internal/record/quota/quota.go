// Package quota bounds what a tenant can create. The domain package that creates something
// counts it inside its own transaction. One table names every resource, its limit and how
// it is counted. A run counts only where it must wait for approval.
package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Resource is the name of a quota, as the setting QUOTAS writes it.
type Resource string

// The resources.
const (
	Keys           Resource = "keys"
	RevokedKeys    Resource = "revoked_keys"
	Users          Resource = "users"
	RemovedUsers   Resource = "removed_users"
	Sessions       Resource = "sessions"
	Providers      Resource = "providers"
	Verbs          Resource = "verbs"
	Catalog        Resource = "catalog_entries"
	VerbBytes      Resource = "verb_bytes"
	Documents      Resource = "document_bytes"
	Credentials    Resource = "credentials"
	Customers      Resource = "customers"
	CustomerFacts  Resource = "customer_facts"
	Facts          Resource = "facts"
	Policies       Resource = "policies"
	PolicyBytes    Resource = "policy_bytes"
	PolicyVersions Resource = "policy_versions"
	PolicyHistory  Resource = "policy_version_bytes"
	Windows        Resource = "policy_windows"
	Grants         Resource = "grants"
	EndedGrants    Resource = "ended_grants"
	Switches       Resource = "kill_switches"
	LiftedSwitches Resource = "lifted_kill_switches"
	Maps           Resource = "maps"
	MapVersions    Resource = "map_versions"
	MapBytes       Resource = "map_bytes"
	Agents         Resource = "agents"
	AgentVersions  Resource = "agent_versions"
	AgentBytes     Resource = "agent_bytes"
	Budgets        Resource = "budgets"
	MapExecutions  Resource = "map_executions"
	ResultFiles    Resource = "result_file_bytes"
	MapValues      Resource = "map_value_bytes"
	MapQueue       Resource = "map_queue"
	Conversations  Resource = "agent_sessions"
	OpenTurns      Resource = "open_messages"

	ModelProviders Resource = "model_providers"

	Held      Resource = "held"
	DryRuns   Resource = "dry_runs"
	Webhooks  Resource = "webhooks"
	Creations Resource = "idempotency_keys"

	CustomEvents  Resource = "custom_events"
	EmittedEvents Resource = "emitted_events"
	Streams       Resource = "streams"
	ReplyStreams  Resource = "reply_streams"

	Mails               Resource = "mails"
	MailLinks           Resource = "mail_links"
	MailLinksUnverified Resource = "mail_links_unverified"
)

// Spec is one row of the table.
type Spec struct {
	Resource Resource
	// Most is the default.
	Most int64
	// Counted says what counts, for people.
	Counted string
	// Advice says what a tenant can do that has reached the limit.
	Advice string
	// rows selects what counts, one row each, of the tenant $1.
	rows string
	// sum selects what counts as one number, where rows is empty.
	sum string
}

// Table returns all quotas, in the order of docs/operate/configuration.md. Each default is far above
// what a tenant needs that uses the service by hand or by program, and small enough that
// a page, a count and a decision stay quick for a tenant that reaches it.
func Table() []Spec { //nolint:funlen // a table
	return []Spec{
		{
			Keys, 500, "API keys that are not revoked", "Revoke one that is no longer used.",
			"SELECT FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL", "",
		},
		{
			// A job forgets them, so 100 a day never reach it. A revocation is never refused: the next key is.
			RevokedKeys, 10_000, "API keys that were revoked within 90 days", "Rotate a key instead, or wait: revoked keys are forgotten after 90 days.",
			"SELECT FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NOT NULL", "",
		},
		{
			Users, 500, "users and open invitations", "Remove a user or an invitation.",
			"SELECT FROM users WHERE tenant_id = $1 AND removed_at IS NULL", "",
		},
		{
			// Users who have joined stay, as approvals and audit records name them: 20 times the quota of users.
			// A removal is never refused: the next invitation is.
			RemovedUsers, 10_000, "removed users, and invitations that were withdrawn within 90 days", "Wait: withdrawn invitations are forgotten after 90 days.",
			"SELECT FROM users WHERE tenant_id = $1 AND removed_at IS NOT NULL", "",
		},
		{
			// A refusal would lock the user out. So their oldest session ends instead: EndOldestSessions.
			Sessions, 50, "sessions of one user; a login beyond ends the oldest", "", "", "",
		},
		{
			Providers, 200, "providers that the tenant imported", "Delete one that is no longer used.",
			"SELECT FROM providers WHERE tenant_id = $1", "",
		},
		{
			Verbs, 50_000, "verbs of these providers together", "Import fewer operations, or delete a provider.",
			"SELECT FROM verbs WHERE tenant_id = $1", "",
		},
		{
			// A removal makes one of the other, so it is never refused. To forget the oldest instead would
			// leave a key's next import with nothing to be compared with.
			Catalog, 100_000, "these providers and verbs, and those that are remembered as removed", "Import what was removed under the names that it had.",
			"SELECT FROM providers WHERE tenant_id = $1 UNION ALL SELECT FROM verbs WHERE tenant_id = $1" +
				" UNION ALL SELECT FROM removed_providers WHERE tenant_id = $1 UNION ALL SELECT FROM removed_verbs WHERE tenant_id = $1", "",
		},
		{
			// The schemas of eight documents of the largest kind; an import has counted its own.
			VerbBytes, 512 << 20, "bytes of the schemas, request plans and schemas of answers of these verbs together, and of the accepted schemas of quarantined ones", "Import fewer operations, or delete a provider.", "",
			"SELECT coalesce((SELECT sum(verb_bytes) FROM providers WHERE tenant_id = $1), 0) + coalesce((SELECT sum(bytes) FROM accepted_verbs WHERE tenant_id = $1), 0)",
		},
		{
			// Ten documents of the largest size; an import has counted its own. Each provider has at most one.
			Documents, 256 << 20, "bytes of the documents of these providers together", "Delete a provider, or import a document without what no verb needs.", "",
			"SELECT coalesce(sum(document_size), 0) FROM providers WHERE tenant_id = $1",
		},
		{
			Credentials, 10_000, "credentials, those of customers included", "Delete one that is no longer used.",
			"SELECT FROM credentials WHERE tenant_id = $1", "",
		},
		{
			// Searches and lists read a page by an index, so their work does not grow with it.
			Customers, 100_000, "customers", "Erase those that are no longer served.",
			"SELECT FROM customers WHERE tenant_id = $1", "",
		},
		{
			// The function write_fact counts them. A message reads them all, to find those that fit.
			CustomerFacts, 500, "facts in use about one customer; superseded ones make room for others", "", "", "",
		},
		{
			// Each has at most 512 bytes. They are counted now and then, as each message may write some.
			Facts, 100_000, "facts about all customers, superseded ones too", "Delete some, or erase customers that are no longer served.",
			"SELECT FROM customer_facts WHERE tenant_id = $1", "",
		},
		{
			Policies, 2_000, "policies that are not deleted", "Delete one, or say more in one.",
			"SELECT FROM policies WHERE tenant_id = $1 AND deleted_at IS NULL", "",
		},
		{
			// A compiled instruction takes more memory than a byte of text, so it counts as 20.
			PolicyBytes, 4 << 20, "bytes of these policies together, and 20 for each instruction of their regular expressions",
			"Delete a policy, or say less in one.", "",
			"SELECT coalesce(sum(octet_length(document::text) + 20 * instructions), 0) FROM policies WHERE tenant_id = $1 AND deleted_at IS NULL",
		},
		{
			// The function forget_policy_versions counts them. A refusal would keep people from changing what
			// governs, so the oldest go.
			PolicyVersions, 1_000, "versions of one policy; the oldest make room for others", "", "", "",
		},
		{
			// As above.
			PolicyHistory, 12 << 20, "bytes of all versions of policies, of deleted policies too; the oldest make room for others", "", "", "",
		},
		{
			// A call may be counted in all of them, and judged by all.
			Windows, 50, "windows that enabled policies ask for; those that count the same count once", "Disable a policy, or ask for windows that count the same.",
			"SELECT FROM policy_windows WHERE tenant_id = $1 AND gone_at IS NULL", "",
		},
		{
			Grants, 500, "grants that can still be used", "Revoke one that is no longer needed.",
			"SELECT FROM grants WHERE tenant_id = $1 AND revoked_at IS NULL AND expires_at > now() AND uses < max_uses", "",
		},
		{
			// A job forgets them, so 100 a day for one call each never reach it. One has at most 8 KiB of conditions.
			EndedGrants, 10_000, "grants that are used up, or have ended within 90 days", "Give grants for more uses, or wait: they are forgotten 90 days after their end.",
			"SELECT FROM grants WHERE tenant_id = $1 AND NOT (revoked_at IS NULL AND expires_at > now() AND uses < max_uses)", "",
		},
		{
			// Each call reads those of agents, with their reasons.
			Switches, 100, "kill switches that are set", "Lift one, or set one that covers more.",
			"SELECT FROM kill_switches WHERE tenant_id = $1 AND lifted_at IS NULL", "",
		},
		{
			// Package killswitch counts them. A refusal would keep people from stopping calls, so the oldest go.
			LiftedSwitches, 10_000, "kill switches that were lifted within 90 days; the oldest make room for others", "", "", "",
		},
		{
			// One page shows all.
			Budgets, 300, "budgets of the tenant and of its keys, one for each measure", "Remove those of keys that are revoked.",
			"SELECT FROM budgets WHERE tenant_id = $1", "",
		},
		{
			// One page shows all.
			ModelProviders, 100, "model providers that the tenant has named", "Delete one that is no longer used.",
			"SELECT FROM model_providers WHERE tenant_id = $1", "",
		},
		{
			// A publication looks at those that start others.
			Maps, 1_000, "Maps that are not deleted", "Delete one that is no longer used.",
			"SELECT FROM maps WHERE tenant_id = $1 AND deleted_at IS NULL", "",
		},
		{
			// Package definition counts them: a Map has the number of its newest version in its row.
			MapVersions, 1_000, "versions of one Map", "", "", "",
		},
		{
			MapExecutions, 10_000, "executions of Maps that have not ended", "Wait until some end, or cancel some.",
			"SELECT FROM map_executions WHERE tenant_id = $1 AND finished_at IS NULL", "",
		},
		{
			// One execution keeps at most 256 MiB, and each of its Maps within Maps as much again. What keeps less
			// than the largest result of one call counts as little as that call, so there are at most 16,384.
			MapValues, 64 << 30, "bytes of values of ended executions of Maps that keep at least 4 MiB each",
			"Let steps return less; they are deleted with the other texts of their executions, after RESULT_RETENTION_DAYS days.", "",
			"SELECT coalesce(sum(kept_bytes), 0)::bigint FROM map_executions WHERE tenant_id = $1 AND kept_bytes >= 4194304",
		},
		{
			// Package execution counts them, where it gives out places.
			MapQueue, 1_000, "executions of one concurrency key of a Map that wait for a place", "", "", "",
		},
		{
			// Each has its row and its entries. Those without a message for RESULT_RETENTION_DAYS are forgotten.
			Conversations, 100_000, "sessions of agents", "Delete some; those without a message for RESULT_RETENTION_DAYS days are forgotten.",
			"SELECT FROM conversations WHERE tenant_id = $1", "",
		},
		{
			OpenTurns, 2_000, "messages to agents that are not answered, or wait for people", "Decide the approvals that they wait for, or cancel some.",
			"SELECT FROM turns WHERE tenant_id = $1 AND finished_at IS NULL", "",
		},
		{
			MapBytes, 256 << 20, "bytes of the definitions of all versions of Maps, of deleted Maps too", "Store fewer and shorter versions.", "",
			"SELECT coalesce(sum(bytes), 0)::bigint FROM maps WHERE tenant_id = $1",
		},
		{
			Agents, 100, "agents that are not deleted", "Delete one that is no longer used.",
			"SELECT FROM agents WHERE tenant_id = $1 AND deleted_at IS NULL", "",
		},
		{
			// Package roster counts them: an agent has the number of its newest version in its row.
			AgentVersions, 1_000, "versions of one agent", "", "", "",
		},
		{
			AgentBytes, 64 << 20, "bytes of the definitions of all versions of agents, of deleted agents too", "Store fewer and shorter versions.", "",
			"SELECT coalesce(sum(bytes), 0)::bigint FROM agents WHERE tenant_id = $1",
		},
		{
			// Package resultfile counts 16 KiB for a smaller one, so there are at most 65,536.
			ResultFiles, 1 << 30, "bytes of files in the results of calls, each at least 16 KiB", "They are deleted with the results that name them, after RESULT_RETENTION_DAYS days.", "",
			"SELECT coalesce(sum(bytes), 0)::bigint FROM run_files WHERE tenant_id = $1",
		},
		{
			Held, 10_000, "calls and steps of Maps that wait for approval", "Decide or cancel some first.",
			"SELECT FROM approvals WHERE tenant_id = $1 AND (status = 'pending') IS TRUE AND kind IN ('hold', 'step')", "",
		},
		{
			DryRuns, 2_000, "dry runs that wait for approval, those of Maps with their changes", "Decide or cancel some first.",
			"SELECT FROM approvals WHERE tenant_id = $1 AND (status = 'pending') IS TRUE AND kind IN ('dry_run', 'changes')", "",
		},
		{
			Mails, 1_000, "mails to people that were not sent yet", "Wait until some were sent.",
			"SELECT FROM mails WHERE tenant_id = $1 AND ended_at IS NULL", "",
		},
		{
			// As many as strangers may ask for from one network address. Withdrawn invitations count.
			MailLinks, 60, "mails with links that its people sent in an hour: invitations and changes of addresses", "Send more later.",
			linked, "",
		},
		{
			// A stranger who signs up could have the service write to anybody otherwise.
			MailLinksUnverified, 5, "mails with links in an hour while no owner has verified their address", "An owner verifies their address by the mail of the sign-up; there may be 60 then.",
			linked + " AND NOT EXISTS (SELECT FROM users WHERE tenant_id = $1 AND role = 'owner' AND email_verified_at IS NOT NULL AND removed_at IS NULL)", "",
		},
		{
			// Each that wants an event adds a row to the transaction of the change.
			Webhooks, 100, "webhooks, those that are disabled included", "Delete one that is no longer used.",
			"SELECT FROM webhooks WHERE tenant_id = $1", "",
		},
		{
			// Package idempotency counts them before the creation: concurrent ones may pass the limit.
			Creations, 10_000, "creations with an `Idempotency-Key` in 24 hours", "", "", "",
		},
		{
			// The ids begin with the time in milliseconds. What steps of Maps emit belongs to an execution.
			CustomEvents, 10_000, "events that the tenant sent in an hour", "Send fewer, or later.",
			"SELECT FROM events WHERE tenant_id = $1 AND source_id IS NOT NULL AND execution_id IS NULL AND id >= " +
				"(lpad(to_hex((extract(epoch FROM now() - interval '1 hour') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid", "",
		},
		{
			// Package execution counts them, as steps ask for room. An execution asks for as many at once as it
			// has emitted, so half of them may stay unused.
			EmittedEvents, 20_000, "events that steps of Maps emit in an hour of UTC", "Emit fewer, or later.", "", "",
		},
		{
			// Package event counts them in the process.
			Streams, 50, "event streams that are open at once, in each process", "", "", "",
		},
		{
			// As above.
			ReplyStreams, 500, "replies of agents that are followed at once, in each process", "", "", "",
		},
	}
}

// linked selects the mails with links of an hour.
const linked = "SELECT FROM mails WHERE tenant_id = $1 AND kind IN ('invitation', 'change') AND created_at > now() - interval '1 hour'"

// Limits are the quotas of a process. The zero value has the defaults of the table.
type Limits struct {
	most map[Resource]int64
	// visited: they are those of keys that visitors may have.
	visited bool
}

// Visited returns the limits of keys that visitors may have. Each leaves a quarter of the tenant's to its
// own servers and people: strangers who fill the rest do not keep them from their work.
func (l Limits) Visited() Limits { return Limits{l.most, true} }

// New returns limits that differ from the defaults by what is set. The error names a
// resource that is unknown, or whose limit is not positive.
func New(set map[string]int64) (Limits, error) {
	l := Limits{most: map[Resource]int64{}}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, known := find(Resource(name)); !known {
			return Limits{}, fmt.Errorf("QUOTAS: no such resource %q; there are %s", name, strings.Join(names(), ", "))
		}
		if set[name] < 1 {
			return Limits{}, fmt.Errorf("QUOTAS: %s must be at least 1", name)
		}
		l.most[Resource(name)] = set[name]
	}
	return l, nil
}

func names() []string {
	var all []string
	for _, s := range Table() {
		all = append(all, string(s.Resource))
	}
	return all
}

func find(r Resource) (Spec, bool) {
	all := Table()
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Resource == r })
	if i < 0 {
		return Spec{}, false
	}
	return all[i], true
}

// Most returns the limit of the resource.
func (l Limits) Most(r Resource) int64 {
	n, set := l.most[r]
	if !set {
		s, _ := find(r)
		n = s.Most
	}
	if l.visited {
		n -= n / 4
	}
	return n
}

// Queue makes the batch fail with QUOTA_EXCEEDED where the tenant then has more of the
// resource than it may. It belongs behind the statement that creates: as the last lock of
// its transaction it cannot lead to a deadlock. Creations of one tenant and resource take
// turns until they commit, and each counts what the one before has made.
func (l Limits) Queue(b *db.Batch, tenant uuid.UUID, r Resource) {
	c := l.counting(tenant, r)
	db.QueueExec(b, takeTurn, c)
	db.QueueExec(b, count, c)
}

// Require is Queue for a transaction that sends its statements one by one.
func (l Limits) Require(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, r Resource) error {
	c := l.counting(tenant, r)
	if err := takeTurn(ctx, tx, c); err != nil {
		return err
	}
	return count(ctx, tx, c)
}

// counting is one check of one quota.
type counting struct {
	tenant uuid.UUID
	spec   Spec
	most   int64
	// visited as in Limits.
	visited bool
}

func (l Limits) counting(tenant uuid.UUID, r Resource) counting {
	s, known := find(r)
	if !known || s.rows+s.sum == "" {
		panic("quota: " + string(r) + " is not counted in the database")
	}
	return counting{tenant: tenant, spec: s, most: l.Most(r), visited: l.visited}
}

func (c counting) message() string {
	if c.visited {
		return fmt.Sprintf("The tenant has reached what a key with agent_id or allowed_origins may fill of its quota %s: at most %d %s. Other keys may make some more. %s",
			c.spec.Resource, c.most, c.spec.Counted, c.spec.Advice)
	}
	return fmt.Sprintf("The tenant has reached its quota %s: at most %d %s. %s", c.spec.Resource, c.most, c.spec.Counted, c.spec.Advice)
}

// takeTurn waits for the creations of the tenant and resource that have not committed. It is
// a statement of its own, because the one after it must see what they have committed.
func takeTurn(ctx context.Context, tx dbsqlc.DBTX, c counting) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('quota:' || $1::text || ':' || $2::text, 0))", string(c.spec.Resource), c.tenant.String()); err != nil {
		return fmt.Errorf("quota: take turns: %w", err)
	}
	return nil
}

// number is the query for how many there are, of the tenant $1. It reads at most one row more than
// the $2 that there may be, or adds up.
func (c counting) number() string {
	if c.spec.sum != "" {
		return c.spec.sum
	}
	return "SELECT count(*) FROM (" + c.spec.rows + " LIMIT $2::bigint + 1) AS counted"
}

// count fails where there are more than there may be.
func count(ctx context.Context, tx dbsqlc.DBTX, c counting) error {
	_, err := tx.Exec(ctx, "SELECT CASE WHEN ("+c.number()+") > $2::bigint THEN quota_exceeded($3) END",
		c.tenant, c.most, c.message())
	if err != nil {
		return fmt.Errorf("quota: count: %w", err)
	}
	return nil
}
