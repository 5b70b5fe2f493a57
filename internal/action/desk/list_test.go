package desk_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
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

func TestMineListsWhatWaitsForTheUser(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.approvals(4, 64)
	o.exec(`UPDATE approvals SET requirements = '[{"policy_id":"00000000-0000-0000-0000-000000000000","version":1,"policy_name":"p","rule":{"required":1,"approvers":[{"type":"role","value":"owner"}],"self_approval":false,"timeout":60,"on_timeout":"reject"}}]'`)
	o.exec(`UPDATE approvals SET requester = $1, requester_kind = 'user' WHERE id = 'appr_000'`, o.who.ID)
	o.exec(`UPDATE approvals SET expires_at = now() WHERE id = 'appr_001'`)
	o.exec(`INSERT INTO approval_decisions (id, tenant_id, approval_id, user_id, decision, reason, request_id, source_addr, counted_at)
	        VALUES (gen_random_uuid(), $1, 'appr_002', $2, 'approve', '', '', '', now())`, o.who.TenantID, o.who.ID)
	page, next, err := o.Mine(t.Context(), o.who, desk.Filter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, page, 1)
	require.Equal(t, "appr_003", page[0].ID)

	member := o.who
	member.ID, member.Role = uuid.New(), actor.RoleMember
	key := actor.Actor{Kind: actor.Key, TenantID: o.who.TenantID, ID: o.key}
	page, _, err = o.Mine(t.Context(), member, desk.Filter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
	_, _, err = o.Mine(t.Context(), key, desk.Filter{Limit: 10})
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)

	for kind, want := range map[actor.Kind]int{actor.User: 1, actor.Key: 0} {
		list, _, err := o.List(t.Context(), o.who.TenantID, desk.Filter{Requester: &actor.Caller{Kind: kind, ID: o.who.ID}, Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, want, kind)
	}
	o.exec(`UPDATE runs SET metadata = '{"customer_id":"c-1"}'`)
	for customer, want := range map[string]int{"c-1": 4, "c-2": 0} {
		list, _, err := o.List(t.Context(), o.who.TenantID, desk.Filter{CustomerID: customer, Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, want)
	}
}

// A user who may approve few of many asks for them again and again. One call reads a bounded part
// of what waits, and no arguments but those that it shows.
func TestMineIsBoundedAmongThousandsThatWaitForOthers(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	o := officeOver(t, d)
	pool, reads := testkit.Watched(t, d)
	const pending, mine, argsBytes = 5_000, 30, 20_000
	o.exec(`INSERT INTO approvals (id, tenant_id, subject_type, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason, kind, expires_at, requirements)
		SELECT 'appr_' || lpad(n::text, 5, '0'), $1::uuid, 'changes', 'c' || n, '', 'pending', 'shop', 'pay', to_json(repeat(md5(n::text), $3 / 32))::text, 'high', '', '', 'hold',
		       now() + interval '1 day', json_build_array(json_build_object('policy_id', '00000000-0000-0000-0000-000000000000', 'version', 1, 'policy_name', 'p', 'rule',
		         json_build_object('required', 1, 'approvers', json_build_array(json_build_object('type', 'role', 'value', CASE WHEN n <= $4 THEN 'owner' ELSE 'admin' END)),
		                           'self_approval', false, 'timeout', 60, 'on_timeout', 'reject')))
		  FROM generate_series(1, $2::integer) n`, o.who.TenantID, pending, argsBytes, mine)
	o.exec("ANALYZE approvals")
	d.Pool = pool
	s := officeOver(t, d)
	var seen []string
	calls := 0
	for before := ""; ; {
		page, next, err := s.Mine(t.Context(), o.who, desk.Filter{Limit: 10, Before: before})
		require.NoError(t, err)
		blocks, plan := reads.Blocks(t, o.who.TenantID.String())
		require.LessOrEqual(t, blocks, 1200, plan)
		for _, a := range page {
			seen = append(seen, a.ID)
			require.Greater(t, len(a.Args), argsBytes-40, "what is shown has its arguments")
		}
		calls++
		if next == "" {
			break
		}
		require.NotEqual(t, before, next)
		before = next
	}
	require.Len(t, seen, mine)
	require.Equal(t, "appr_00030", seen[0])
	require.LessOrEqual(t, calls, 7)
	require.Greater(t, calls, 3, "one call looked at all that wait")
}
