package desk_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/dev/testkit"
)

func TestListReadsLittleUnderEachFilter(t *testing.T) {
	t.Parallel()
	const many, readBlocks = 40_000, 1200
	d := testkit.Database(t)
	o := officeOver(t, d)
	pool, reads := testkit.Watched(t, d)
	for _, tenant := range []uuid.UUID{o.who.TenantID, o.foreign.TenantID} {
		// Rare approvals are old, which is the worst place for a list that begins with the newest.
		o.exec(`INSERT INTO approvals (id, tenant_id, subject_type, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason, kind, created_at)
			SELECT 'appr_' || (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000800000000000' || lpad(to_hex(n), 4, '0'))::uuid, $1::uuid, 'changes', 'c' || n,
			       CASE WHEN n < 20 THEN 'rare' ELSE 'e' || n END, CASE WHEN n < 20 THEN 'expired' ELSE 'blocked' END, CASE WHEN n < 20 THEN 'old' ELSE 'shop' END,
			       CASE WHEN n < 20 THEN 'other' ELSE 'pay' END, '{}', CASE WHEN n < 20 THEN 'low' ELSE 'high' END, '', '', CASE WHEN n < 20 THEN 'hold' ELSE 'block' END, at
			  FROM (SELECT n, now() - interval '60 days' + n * interval '1 minute' AS at FROM generate_series(1, $2::integer) n) made`, tenant, many)
	}
	o.exec("ANALYZE approvals")
	d.Pool = pool
	s := officeOver(t, d)
	old := time.Now().Add(-59*24*time.Hour - 12*time.Hour)
	for _, c := range []struct {
		name string
		f    desk.Filter
		want int
	}{
		{"nothing", desk.Filter{}, 50},
		{"pending", desk.Filter{Status: governance.ApprovalPending}, 0},
		{"a rare status", desk.Filter{Status: governance.ApprovalExpired}, 19},
		{"a status that no approval has", desk.Filter{Status: governance.ApprovalRejected}, 0},
		{"a rare kind", desk.Filter{Kind: governance.ApprovalOfHold}, 19},
		{"a rare provider", desk.Filter{Provider: "old"}, 19},
		{"an unknown verb", desk.Filter{Provider: "shop", Verb: "no_such"}, 0},
		{"a rare risk", desk.Filter{RiskLevel: "low"}, 19},
		{"an execution", desk.Filter{ExecutionID: "rare"}, 19},
		{"an old period", desk.Filter{Until: &old}, 50},
	} {
		c.f.Limit = 50
		page, _, err := s.List(t.Context(), o.who.TenantID, c.f)
		require.NoError(t, err, c.name)
		require.Len(t, page, c.want, c.name)
		blocks, plan := reads.Blocks(t, o.who.TenantID.String())
		require.LessOrEqual(t, blocks, readBlocks, "%s\n%s", c.name, plan)
	}
}
