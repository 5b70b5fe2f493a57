package audit_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/audit"
)

func TestListReadsLittleUnderEachFilter(t *testing.T) {
	t.Parallel()
	const many, readBlocks = 40_000, 600
	tr := newTrail(t, audit.Config{})
	tenant, neighbour := tr.tenant(t), tr.tenant(t)
	admin, err := pgx.Connect(t.Context(), tr.db.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	for _, of := range []string{tenant.String(), neighbour.String()} {
		// Rare records are old, which is the worst place for a list that begins with the newest.
		_, err := admin.Exec(t.Context(), `INSERT INTO audit_records (id, tenant_id, at, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome, subject_type, subject_id, execution_id, session_id, request_id, source_addr)
			SELECT (lpad(to_hex((extract(epoch FROM made.at) * 1000)::bigint), 12, '0') || '7000800000000000' || lpad(to_hex(n), 4, '0'))::uuid, $1::uuid, made.at, 'user',
			       CASE WHEN n < 20 THEN 'rare' ELSE 'usual' END, CASE WHEN n < 20 THEN 'policy.created' ELSE 'run.executed' END, CASE WHEN n < 20 THEN 'old' ELSE 'shop' END,
			       CASE WHEN n < 20 THEN 'other' ELSE 'pay' END, '', CASE WHEN n < 20 THEN 'block' ELSE 'allow' END, '', '', CASE WHEN n < 20 THEN 'rare' ELSE '' END, CASE WHEN n < 20 THEN 'rare' ELSE 'e' || n END,
			       CASE WHEN n < 20 THEN 'rare' END, 'r', ''
			  FROM (SELECT n, now() - interval '60 days' + n * interval '1 minute' AS at FROM generate_series(1, $2::integer) n) made`, of, many)
		require.NoError(t, err)
	}
	_, err = admin.Exec(t.Context(), "ANALYZE audit_records")
	require.NoError(t, err)
	pool, reads := testkit.Watched(t, tr.db)
	tr.db.Pool = pool
	trail := tr.over(t, audit.Config{}, tr.seed)
	old := time.Now().Add(-59*24*time.Hour - 12*time.Hour)
	for _, c := range []struct {
		name string
		f    audit.Filter
		want int
	}{
		{"nothing", audit.Filter{}, 50},
		{"a rare action", audit.Filter{Action: "policy.created"}, 19},
		{"an action that no record has", audit.Filter{Action: "grant.created"}, 0},
		{"a rare actor", audit.Filter{ActorType: "user", ActorID: "rare"}, 19},
		{"a rare decision", audit.Filter{Decision: "block"}, 19},
		{"a decision that no record has", audit.Filter{Decision: "require_approval"}, 0},
		{"a subject", audit.Filter{SubjectID: "rare"}, 19},
		{"an execution", audit.Filter{ExecutionID: "rare"}, 19},
		{"a session", audit.Filter{SessionID: "rare"}, 19},
		{"a rare verb", audit.Filter{Provider: "old", Verb: "other"}, 19},
		{"a rare provider", audit.Filter{Provider: "old"}, 19},
		{"an unknown verb", audit.Filter{Provider: "shop", Verb: "no_such"}, 0},
		{"an old period", audit.Filter{To: &old}, 50},
	} {
		page, _, err := trail.List(t.Context(), tenant, c.f, nil, 50)
		require.NoError(t, err, c.name)
		require.Len(t, page, c.want, c.name)
		blocks, plan := reads.Blocks(t, tenant.String())
		require.LessOrEqual(t, blocks, readBlocks, "%s\n%s", c.name, plan)
	}
}
