package desk_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/kernel/governance"
)

// approvals stores n approvals of calls whose masked arguments are of size bytes, and
// whose requests are three times that.
func (o *office) approvals(n, size int) {
	run := uuid.New()
	o.exec(`INSERT INTO runs (id, tenant_id, execution_id, claim_key, state, provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr, give_up_at, workflow_id)
	        VALUES ($1, $2, $3, $3, 'pending_approval', 'shop', 'refund', '{}', '\x00', false, '{}', '', '', now(), 'w')`, run, o.who.TenantID, run.String())
	for i := range n {
		o.exec(`INSERT INTO approvals (id, tenant_id, run_id, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason, expires_at, kind, request)
		        SELECT $1, $2, $3::uuid, $3::uuid::text, '', 'pending', 'shop', 'refund', to_json(repeat(md5($1), $4 / 32))::text, 'high', 'p', 'r', now() + interval '1 day', 'hold',
		               to_json(repeat(md5($1), $4 * 3 / 32))`, fmt.Sprintf("appr_%03d", i), o.who.TenantID, run, size)
	}
}

// A page of 500 calls with the longest arguments would be a gigabyte.
func TestPageOfApprovalsHasLimitedBytes(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	const n, size = 20, 1 << 20
	o.approvals(n, size)
	for name, f := range map[string]desk.Filter{
		"pending": {Status: governance.ApprovalPending, Limit: 500}, "all": {Limit: 500}, "by three": {Limit: 3},
	} {
		var seen []string
		for more := true; more; {
			var page []desk.Approval
			var err error
			page, more, err = o.List(t.Context(), o.who.TenantID, f)
			require.NoError(t, err)
			require.NotEmpty(t, page)
			require.LessOrEqual(t, len(page), min(5, f.Limit), name)
			for _, a := range page {
				require.Greater(t, len(a.Args), size/2)
				require.Empty(t, a.Request, "which only the page of one shows")
				require.Empty(t, a.RunState)
				seen = append(seen, a.ID)
			}
			f.Before = seen[len(seen)-1]
		}
		require.Len(t, seen, n, name)
		require.Equal(t, "appr_019", seen[0])
		require.IsDecreasing(t, seen, name)
	}
	none, more, err := o.List(t.Context(), o.foreign.TenantID, desk.Filter{Limit: 500})
	require.NoError(t, err)
	require.Empty(t, none)
	require.False(t, more)
}

func TestPageOfSmallApprovalsHasItsWholeLimit(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.approvals(7, 64)
	for limit, want := range map[int]bool{6: true, 7: false, 8: false} {
		for _, f := range []desk.Filter{{Limit: limit}, {Limit: limit, Status: governance.ApprovalPending}} {
			page, more, err := o.List(t.Context(), o.who.TenantID, f)
			require.NoError(t, err)
			require.Len(t, page, min(limit, 7))
			require.Equal(t, want, more)
		}
	}
}

// A tenant must not pay for the approvals of others, however many are newer.
func TestPageOfApprovalsReadsItsTenantsOnly(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for name, tenant := range map[string]uuid.UUID{"appr_a": o.who.TenantID, "appr_b": o.foreign.TenantID} {
		o.exec(`INSERT INTO approvals (id, tenant_id, run_id, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason, kind)
		        SELECT $1 || n, $2::uuid, $2::uuid, $2::uuid::text, '', 'approved', 'shop', 'refund', '{}', 'high', 'p', 'r', 'hold' FROM generate_series(1, 10000) n`, name, tenant)
	}
	o.exec(`ANALYZE approvals`)
	plan := o.text(`EXPLAIN (FORMAT JSON) SELECT id FROM approvals WHERE tenant_id = '` + o.who.TenantID.String() + `' ORDER BY id DESC LIMIT 101`)
	require.Contains(t, plan, `"Index Cond": "(tenant_id = `)
}
