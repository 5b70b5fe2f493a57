package run_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/dev/testkit"
)

// manyRuns is how many ended runs two tenants have each. Reading them all takes more than
// ten times readBlocks.
const (
	manyRuns   = 50_000
	readBlocks = 800
)

// fill gives the tenant and a neighbour many runs: 49 of 50 by one key, of one verb and
// executed. Rare ones are old, which is the worst place for a list that begins with the
// newest.
func (r *rig) fill(rare uuid.UUID) {
	r.t.Helper()
	for _, tenant := range []uuid.UUID{r.tenant, uuid.New()} {
		r.admin(`INSERT INTO runs (id, tenant_id, execution_id, claim_key, state, provider, verb, args, fingerprint, dry_run, metadata, key_id, request_id, source_addr, give_up_at, session_id, created_at, workflow_id, grant_id)
			SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000800000000000' || lpad(to_hex(n), 4, '0'))::uuid, $1, 'e' || n, 'e' || n,
			       CASE WHEN n < 20 THEN 'cancelled' WHEN n < 40 THEN 'claimed' ELSE 'executed' END, CASE WHEN n < 20 THEN 'old' ELSE 'shop' END,
			       CASE WHEN n < 20 THEN 'other' ELSE 'pay' END, '{}', '\x00', n < 20, CASE WHEN n < 20 THEN '{"customer_id":"rare"}' ELSE '{}' END::json, CASE WHEN n < 20 THEN $2::uuid ELSE $3::uuid END, 'bulk', '127.0.0.1', now(),
			       CASE WHEN n < 20 THEN 'rare' END, at, 'w' || n, CASE WHEN n < 20 THEN $2::uuid END
			  FROM (SELECT n, now() - interval '60 days' + n * interval '1 minute' AS at FROM generate_series(1, $4::integer) n) made`, tenant, rare, r.key, manyRuns)
	}
	r.admin(`INSERT INTO policy_matches (tenant_id, policy_id, run_id, attempt, policy_version, mode, action, decided, decision, shadow)
		SELECT tenant_id, CASE WHEN dry_run THEN $1::uuid ELSE $2::uuid END, id, 1, 1, 'enforce', 'notify', true, 'allow', 'allow' FROM runs`, rare, r.key)
	r.admin(`INSERT INTO run_keys (tenant_id, key, run_id) SELECT tenant_id, execution_id, id FROM runs`)
	r.admin(`INSERT INTO run_keys (tenant_id, key, run_id) SELECT tenant_id, CASE WHEN execution_id IN ('e1', 'e2', 'e3') THEN 'exec_fff-' ELSE 'exec_' || id END || execution_id, id FROM runs`)
	r.admin(`INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome, subject_type, subject_id, execution_id, request_id, source_addr)
		SELECT gen_random_uuid(), tenant_id, 'key', '', 'grant.used', 'old', 'other', '', '', '', 'grant', $1::uuid::text, execution_id, '', '' FROM runs WHERE dry_run`, rare)
	r.admin(`ANALYZE runs, policy_matches, run_keys, audit_records`)
}

func TestListReadsLittleUnderEachFilter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rare := uuid.New()
	r.fill(rare)
	var reads *testkit.Reads
	r.db.Pool, reads = testkit.Watched(t, r.db)
	s := r.another()
	at := func(d time.Duration) *time.Time { v := time.Now().Add(-d); return &v }
	owner := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: uuid.New()}
	// The last run has the one id that begins so, and the fourth has a name that does.
	last := r.text(`SELECT 'exec_' || left(max(id::text), 13) FROM runs WHERE tenant_id = '` + r.tenant.String() + `'`)
	r.admin(`INSERT INTO run_keys (tenant_id, key, run_id) SELECT tenant_id, $1 || '-mine', id FROM runs WHERE execution_id = 'e4'`, last)
	byKey := func(id uuid.UUID) actor.Actor { return actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: id} }
	for _, c := range []struct {
		name string
		who  actor.Actor
		f    run.Filter
		want int
	}{
		{"nothing", owner, run.Filter{}, 50},
		{"a rare key", byKey(rare), run.Filter{}, 19},
		{"an unknown key", byKey(uuid.New()), run.Filter{}, 0},
		{"a rare provider", owner, run.Filter{Provider: "old"}, 19},
		{"an unknown provider", owner, run.Filter{Provider: "none"}, 0},
		{"a rare verb", owner, run.Filter{Provider: "old", Verb: "other"}, 19},
		{"an unknown verb", owner, run.Filter{Provider: "shop", Verb: "no_such"}, 0},
		{"a session", owner, run.Filter{SessionID: "rare"}, 19},
		{"a rare status", owner, run.Filter{Status: "cancelled"}, 19},
		{"the usual status", owner, run.Filter{Status: "executed"}, 50},
		{"runs under way", owner, run.Filter{Status: "running"}, 20},
		{"a status that no run has", owner, run.Filter{Status: "outcome_unknown"}, 0},
		{"an unknown verb and the usual status", owner, run.Filter{Status: "executed", Provider: "shop", Verb: "no_such"}, 0},
		{"a rare verb and the usual status", owner, run.Filter{Status: "executed", Provider: "old", Verb: "other"}, 0},
		{"an unknown key and the usual status", byKey(uuid.New()), run.Filter{Status: "executed"}, 0},
		{"another key than one's own", byKey(rare), run.Filter{KeyID: &r.key}, 0},
		{"a rare key, by a user", owner, run.Filter{KeyID: &rare}, 19},
		{"dry runs", owner, run.Filter{DryRun: new(true)}, 19},
		{"the others", owner, run.Filter{DryRun: new(false)}, 50},
		{"a rare customer", owner, run.Filter{CustomerID: "rare"}, 19},
		{"an unknown customer", owner, run.Filter{CustomerID: "none"}, 0},
		{"a rare policy", owner, run.Filter{PolicyID: &rare}, 19},
		{"a policy that matches nearly all", owner, run.Filter{PolicyID: &r.key}, 50},
		{"a policy that matches nearly all, and the usual status", owner, run.Filter{PolicyID: &r.key, Status: "executed"}, 50},
		{"a rare policy, and a key", owner, run.Filter{PolicyID: &rare, KeyID: &rare}, 19},
		{"an unknown policy", owner, run.Filter{PolicyID: new(uuid.New())}, 0},
		{"a grant", owner, run.Filter{GrantID: &rare}, 19},
		{"a grant that none has used", owner, run.Filter{GrantID: new(uuid.New())}, 0},
		{"an approval that does not exist", owner, run.Filter{ApprovalID: "appr_none"}, 0},
		{"an old period", owner, run.Filter{Since: at(61 * 24 * time.Hour), Until: at(59*24*time.Hour + 12*time.Hour)}, 50},
		{"names like ours", owner, run.Filter{Begins: "exec_0"}, 50},
		{"a rare name like ours", owner, run.Filter{Begins: "exec_fff"}, 3},
		{"names of ours and one like them", owner, run.Filter{Begins: last}, 2},
		{"names like ours of a rare policy", owner, run.Filter{Begins: "exec_f", PolicyID: &rare}, 3},
		{"a period before all", owner, run.Filter{Until: at(70 * 24 * time.Hour)}, 0},
	} {
		c.f.Limit = 50
		list, _, err := s.List(t.Context(), c.who, c.f)
		require.NoError(t, err, c.name)
		require.Len(t, list, c.want, c.name)
		blocks, plan := reads.Blocks(t, r.tenant.String())
		require.LessOrEqual(t, blocks, readBlocks, "%s\n%s", c.name, plan)
	}
}

func TestMoveToSendingWritesNoIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 20 {
		_, err := r.do("pay", fmt.Sprint("run ", i), `{}`)
		require.NoError(t, err)
	}
	// Another connection may still be about to report.
	require.Eventually(t, func() bool {
		return r.text(`SELECT (pg_stat_get_tuples_updated('runs'::regclass) = 40)::text`) == "true"
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, "20", r.text(`SELECT pg_stat_get_tuples_hot_updated('runs'::regclass)::text`), "each run's first change")
}

func TestListedStateIsTheStateOfWhatIsNotUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(uuid.New())
	require.Equal(t, "0", r.text(`SELECT count(*)::text FROM runs
	     WHERE listed_state IS DISTINCT FROM CASE WHEN state NOT IN ('claimed', 'sending') THEN state END`))
}
