package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

func TestApproverWhoHasApprovedMayStillReject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund", needs(3)))
	x := r.held("refund", "a", `{}`)
	u := r.user("approver")
	require.Empty(t, r.decide(x, u, "approve").Code)
	d := r.decide(x, u, "reject")
	require.Empty(t, d.Code)
	require.True(t, d.Closed)
	require.Equal(t, run.StateRejected, r.read(x).State)
	require.Equal(t, 2, r.count(`SELECT count(*) FROM approval_decisions WHERE counted_at IS NOT NULL`))
}

// A crash came between the taking of a grant and the sending, and the grant was revoked
// meanwhile. The run is held, and its approval must be enough.
func TestARunThatLostItsGrantIsSentOnceItIsApproved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	r.grant("refund", r.user("approver"), 1)
	r.engine.dead.Store(true)
	none := time.Duration(0)
	out, err := r.do("refund", "a", `{}`, func(q *run.Request) { q.Wait = &none })
	require.NoError(t, err)
	step, err := r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateClaimed}, step, "the grant lets it through")
	r.admin(`UPDATE grants SET revoked_at = now()`)
	step, err = r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.NotEmpty(t, step.ApprovalID, "the gate is shut, and the run is held")
	require.True(t, r.decide(r.read(out.Run), r.user("approver"), "approve").Closed)
	step, err = r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.allowed' AND details->>'grant_id' IS NULL AND details->>'approval_id' <> ''`))
}

// The provider asks for a pause. The approval is checked again after it.
func TestApprovalIsCheckedAgainBeforeEachAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: time.Second}
	})
	x := r.held("refund", "a", `{}`)
	u := r.user("approver")
	require.True(t, r.decide(x, u, "approve").Closed)
	step, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateClaimed}, step)
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateClaimed, After: time.Second}, step)
	r.admin(`UPDATE users SET removed_at = now(), password_hash = NULL WHERE id = $1`, u)
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.NotEmpty(t, step.ApprovalID, "its approver is gone: it is asked again")
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// Temporal lost the update after the row had counted the decision. So the workflow does not
// know, and would wait until the approval expires. The sweeper tells it.
func TestSweeperTellsAWorkflowWhatItMissed(t *testing.T) {
	t.Parallel()
	for name, missed := range map[string]func(r *rig, x run.Run){
		"a rejection": func(r *rig, x run.Run) {
			r.t.Helper()
			require.True(r.t, r.decide(x, r.user("approver"), "reject").Closed)
		},
		"an edit": func(r *rig, x run.Run) {
			r.t.Helper()
			require.True(r.t, r.decide(x, r.user("approver"), "approve", `{"amount":2}`).Closed)
			require.Equal(r.t, run.StatePending, r.read(x).State)
		},
		"an approval": func(r *rig, x run.Run) {
			r.t.Helper()
			require.True(r.t, r.decide(x, r.user("approver"), "approve").Closed)
		},
		"a refusal, and the id was claimed again": func(r *rig, x run.Run) {
			r.t.Helper()
			r.admin(`UPDATE runs SET state = 'refused', finished_at = now() WHERE id = $1`, x.ID)
			r.admin(`UPDATE approvals SET status = 'cancelled', closed_reason = 'x', decided_at = now(), recheck = true WHERE id = $1`, *x.ApprovalID)
			none := time.Duration(0)
			r.engine.dead.Store(true)
			out, err := r.do("refund", x.ExecutionID, `{}`, func(q *run.Request) { q.Wait = &none })
			require.NoError(r.t, err)
			require.Equal(r.t, run.StateClaimed, out.Run.State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.t = t
			r.policies(rule(governance.ActionRequireApproval, "refund"))
			x := r.held("refund", "a", `{}`)
			missed(r, x)
			r.ahead.Store(int64(time.Minute))
			require.NoError(t, r.Sweep(t.Context()))
			require.Positive(t, r.engine.nudged.Load())
			told := r.engine.nudged.Load()
			if r.read(x).State != run.StateClaimed {
				require.NoError(t, r.Sweep(t.Context()))
				require.Equal(t, told, r.engine.nudged.Load(), "once is enough")
			}
		})
	}
}

// A dry run stays intercepted when it is rejected. The sweeper tells its workflow, and must
// see that there is nothing further to do.
func TestSweeperDoesNotChangeARejectedDryRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.held("pay", "a", `{}`, func(q *run.Request) { q.DryRun = true })
	require.True(t, r.decide(x, r.user("approver"), "reject").Closed)
	r.engine.open.Store(x.ClaimKey, false)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals WHERE recheck`))
	r.ahead.Store(int64(time.Minute))
	require.NoError(t, r.Sweep(t.Context()))
	require.Zero(t, r.count(`SELECT count(*) FROM approvals WHERE recheck`))
	require.Equal(t, "rejected", r.status(*x.ApprovalID))
}

// cancelBehind cancels a run while a transaction of a decision has locked it. The cancellation
// waits, the decision changes rows and commits. The error is that of the cancellation.
func (r *rig) cancelBehind(t *testing.T, x run.Run, changes ...string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	decision, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = decision.Exec(t.Context(), `SELECT FROM runs WHERE id = $1 FOR UPDATE`, x.ID)
	require.NoError(t, err)
	cancelled := make(chan error, 1)
	go func() {
		_, err := r.Cancel(t.Context(), actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.tenant}, x.ExecutionID)
		cancelled <- err
	}()
	require.Eventually(t, func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, 5*time.Millisecond, "the cancellation waits for the decision")
	for _, sql := range changes {
		_, err = decision.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, decision.Commit(t.Context()))
	return <-cancelled
}

// While a run is being cancelled, an edit replaces its approval.
func TestCancelCancelsTheApprovalThatTheRunHasThen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	x := r.held("refund", "a", `{}`)
	require.NoError(t, r.cancelBehind(
		t, x, `UPDATE approvals SET status = 'superseded', decided_at = now()`,
		`INSERT INTO approvals (id, tenant_id, run_id, subject_id, execution_id, status, provider, verb, args, risk_level, policy_name, reason, expires_at, kind)
		 SELECT 'appr_next', tenant_id, run_id, subject_id, execution_id, 'pending', provider, verb, args, risk_level, policy_name, reason, expires_at, kind FROM approvals`,
		`UPDATE runs SET approval_id = 'appr_next'`,
	))
	require.Equal(t, run.StateCancelled, r.read(x).State)
	require.Equal(t, "cancelled", r.status("appr_next"))
}

// While a dry run is being cancelled, a person rejects it.
func TestCancelDoesNotUndoARejection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.held("pay", "a", `{}`, func(q *run.Request) { q.DryRun = true })
	err := r.cancelBehind(t, x, `UPDATE approvals SET status = 'rejected', decided_at = now()`, `UPDATE runs SET updated_at = now()`)
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	require.Equal(t, run.StateIntercepted, r.read(x).State)
	require.Equal(t, "rejected", r.status(*x.ApprovalID))
}

// Something else changes while the sweeper tells a workflow of a first change. The workflow
// may have looked before that, so it is told again.
func TestChangeWhileAWorkflowIsToldIsToldToo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.held("pay", "one", `{}`)
	r.admin(`UPDATE approvals SET recheck = true`)
	change := func() { r.admin(`UPDATE approvals SET recheck = true`) }
	r.engine.telling.Store(&change)
	require.NoError(t, r.Sweep(t.Context()))
	require.EqualValues(t, 1, r.engine.nudged.Load())
	require.NoError(t, r.Sweep(t.Context()))
	require.EqualValues(t, 2, r.engine.nudged.Load())
	require.NoError(t, r.Sweep(t.Context()))
	require.EqualValues(t, 2, r.engine.nudged.Load(), "once each is enough")
}
