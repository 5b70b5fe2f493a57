package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/verb"
)

// An approver who looked at a medium write has not approved a high one, nor one that may be
// repeated.
func TestApprovalIsSupersededWhenItsVerbChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*target)
		reason string
	}{
		"higher risk":      {func(v *target) { v.risk = verb.RiskHigh }, "its risk level was medium and is high now"},
		"lower risk":       {func(v *target) { v.risk = verb.RiskLow }, "its risk level was medium and is low now"},
		"a read":           {func(v *target) { v.op = verb.Read }, "its operation type was write and is read now"},
		"may be repeated":  {func(v *target) { v.idem = verb.IdempotencyIntrinsic }, "its idempotency was none and is intrinsic now"},
		"another key":      {func(v *target) { v.idem = "header:Idempotency-Key" }, "its idempotency was none and is header:Idempotency-Key now"},
		"another and more": {func(v *target) { v.risk, v.op = verb.RiskHigh, verb.Read }, "its risk level was medium and is high now"},
	} {
		for _, when := range []string{"before the decision", "after it"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.policies(rule(governance.ActionRequireApproval, "pay"))
				x := r.held("pay", "one", `{}`)
				if when == "before the decision" {
					r.targets.imported.Store(&tt.change)
					r.decide(x, r.user("owner"), "approve")
				} else {
					r.decide(x, r.user("owner"), "approve")
					r.targets.imported.Store(&tt.change)
				}
				now := r.wake(x)
				require.Equal(t, run.StatePending, now.State)
				require.Zero(t, r.provider.effects.Load())
				require.Equal(t, "superseded", r.status(*x.ApprovalID))
				require.Equal(t, "The verb has changed: "+tt.reason+".", r.text("SELECT closed_reason FROM approvals WHERE status = 'superseded'"))
				r.decide(now, r.user("owner"), "approve")
				require.Equal(t, run.StateExecuted, r.wake(now).State)
				require.EqualValues(t, 1, r.provider.effects.Load())
			})
		}
	}
}

// An approval from before these were recorded is compared with what it has: the risk level.
func TestApprovalWithoutARecordedVerbIsComparedByItsRisk(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*target)
		state  run.State
	}{
		"nothing changed": {func(*target) {}, run.StateExecuted},
		"may be repeated": {func(v *target) { v.idem = verb.IdempotencyIntrinsic }, run.StateExecuted},
		"higher risk":     {func(v *target) { v.risk = verb.RiskHigh }, run.StatePending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			x := r.held("pay", "one", `{}`)
			r.admin(`UPDATE approvals SET operation_type = NULL, idempotency = NULL`)
			r.targets.imported.Store(&tt.change)
			r.decide(x, r.user("owner"), "approve")
			require.Equal(t, tt.state, r.wake(x).State)
		})
	}
}
