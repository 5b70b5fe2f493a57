package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
)

// The last approval is counted just before the time is over. It commits after the workflow
// has found that the time is over.
func TestApprovalInTheLastMomentCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	who := r.user("owner")
	conn, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	committed := make(chan error, 1)
	late := func() {
		r.ahead.Store(int64(25 * time.Hour))
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		for _, sql := range []string{
			`UPDATE runs SET state = 'claimed', expires_at = now() + interval '26 hours' WHERE id = $1 AND $2::uuid IS NOT NULL`,
			`UPDATE approvals SET status = 'approved' WHERE run_id = $1 AND $2::uuid IS NOT NULL`,
			`INSERT INTO approval_decisions (id, tenant_id, approval_id, user_id, decision, reason, request_id, source_addr, counted_at)
			 SELECT gen_random_uuid(), tenant_id, id, $2, 'approve', '', '', '', now() FROM approvals WHERE run_id = $1`,
		} {
			_, err := tx.Exec(t.Context(), sql, x.ID, who)
			require.NoError(t, err)
		}
		go func() {
			for r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
			}
			committed <- tx.Commit(context.WithoutCancel(t.Context()))
		}()
	}
	r.targets.meanwhile.Store(&late)
	step, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, <-committed)
	require.NoError(t, err)
	require.False(t, step.Done, "the run goes on")
	require.Equal(t, run.StateExecuted, r.wake(x).State)
	require.Equal(t, "approved", r.status(*x.ApprovalID))
}

// Several processes may both answer callers and run workflows. The one that claimed a run
// keeps its row for the next step, which mostly runs there. But that step may run elsewhere,
// and a later step here.
func TestRowKeptFromTheClaimDoesNotEndAWorkflow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.engine.dead.Store(true)
	none := time.Duration(0)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &none })
	require.NoError(t, err)
	x := out.Run
	other := r.another()
	step, err := other.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.NotEmpty(t, step.ApprovalID)
	r.engine.dead.Store(false)
	require.Equal(t, run.StatePending, r.wake(x).State)
	open, found := r.engine.open.Load(x.ClaimKey)
	require.False(t, found && !open.(bool), "its workflow waits for the approval")
}
