package run_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// Many runs of a tenant are stuck with open workflows. A later claim of another tenant, whose
// workflow was never started, is repaired in the same pass.
func TestStuckRunsOfATenantDoNotFillTheSweeper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.SweepAfter = 10 * time.Second })
	for _, one := range r.claims("pay", 60) {
		r.engine.open.Store(r.text(`SELECT workflow_id FROM runs WHERE id = '`+one.RunID.String()+`'`), true)
	}
	other, id := uuid.New(), uuid.New()
	r.admin(`INSERT INTO tenants (id, name) VALUES ($1, 'other')`, other)
	workflow := flow.RunWorkflowID(other, "last")
	r.admin(`INSERT INTO runs (tenant_id, id, workflow_id, claim_key, execution_id, provider, verb, args, fingerprint, dry_run, metadata,
	                           request_id, source_addr, give_up_at, expires_at)
	         SELECT $1, $2, $3, 'last', 'last', provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr, give_up_at, expires_at
	           FROM runs LIMIT 1`,
		other, id, workflow)
	r.engine.dead.Store(false)
	r.ahead.Store(int64(time.Minute))
	require.NoError(t, r.Service.Sweep(t.Context()))
	_, started := r.engine.inputs.Load(workflow)
	require.True(t, started)

	asked := r.engine.asked.Load()
	require.Equal(t, int64(50+1), asked, "a tenant gets a quarter of the repairs")
	require.NoError(t, r.Service.Sweep(t.Context()))
	require.Less(t, r.engine.asked.Load()-asked, int64(50), "what was found open is not asked about again at once")
}

// The process that made a call has ended. Its workflow waits to be told of the end.
func TestWorkflowIsToldThatItsCallIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("pay", 1)[0]
	r.admin(`UPDATE runs SET state = 'sending', sends = 1, updated_at = now() - interval '1 minute'`)
	r.engine.open.Store(r.text(`SELECT workflow_id FROM runs`), true)
	require.NoError(t, r.Service.Sweep(t.Context()))
	require.EqualValues(t, 1, r.engine.nudged.Load())
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateOutcomeUnknown, Done: true}, step)
	require.Zero(t, r.provider.effects.Load())
}

// A step of the run always fails. The run ends when its time is over, by what its row says.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, row string
		late      time.Duration
		want      flow.Step
	}{
		{"in time", `state = 'claimed'`, 0, flow.Step{State: run.StateClaimed}},
		{"nothing sent", `state = 'claimed'`, time.Hour, flow.Step{State: run.StateRefused, Done: true}},
		{"maybe sent", `state = 'claimed', maybe_sent = true`, time.Hour, flow.Step{State: run.StateOutcomeUnknown, Done: true}},
		{"sending", `state = 'sending', updated_at = now() - interval '1 minute'`, time.Hour, flow.Step{State: run.StateOutcomeUnknown, Done: true}},
		{"held", `state = 'pending_approval', held = true`, time.Hour, flow.Step{State: run.StatePending}},
		{"ended", `state = 'executed'`, time.Hour, flow.Step{State: run.StateExecuted, Done: true}},
		{"arguments that do not open", `args = 'enc:nonsense'`, time.Hour, flow.Step{State: run.StateRefused, Done: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.claims("pay", 1)[0]
			r.admin(`UPDATE runs SET ` + c.row)
			r.ahead.Store(int64(c.late))
			step, err := r.GiveUp(t.Context(), one)
			require.NoError(t, err)
			require.Equal(t, c.want, step)
			if c.want.State == run.StateRefused {
				require.Equal(t, string(fault.CodeInternal), r.text(`SELECT error_code FROM runs`))
			}
		})
	}
}

// The workflows of many overdue approvals do not move. Those behind them are told all the
// same.
func TestStuckApprovalsDoNotFillTheSweeper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	r.admin(`INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object('id', 'appr_' || lpad(n::text, 4, '0'), 'workflow_id', 'stuck-' || n,
	         'expires_at', a.expires_at - interval '1 hour'))).* FROM approvals a, generate_series(1, 250) n`)
	for n := range 250 {
		r.engine.open.Store(fmt.Sprintf("stuck-%d", n+1), true)
	}
	r.ahead.Store(int64(25 * time.Hour))
	for range 2 {
		require.NoError(t, r.approvals.Once(t.Context()))
	}
	_, told := r.engine.told.Load(x.WorkflowID)
	require.True(t, told)
}
