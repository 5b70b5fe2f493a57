package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
)

// The decision is counted after the run was read and before its approval is read. Two
// approvers at once, or a change of policies, can cause this.
func TestDecisionBetweenTheReadsOfRunAndApprovalCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decision string
		edited   []string
		state    run.State
	}{
		"approved": {"approve", nil, run.StateClaimed},
		"rejected": {"reject", nil, run.StateRejected},
		"edited":   {"approve", []string{`{"n":2}`}, run.StatePending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.policies(rule(governance.ActionRequireApproval, "refund"))
			x := r.held("refund", "one", `{"n":1}`)
			approver := r.user("approver")
			decide := func() { require.Empty(t, r.decide(x, approver, c.decision, c.edited...).Code) }
			r.targets.meanwhile.Store(&decide)
			step, err := r.Govern(t.Context(), ref(x))
			require.NoError(t, err)
			require.Equal(t, c.state, step.State)
			require.Equal(t, c.state == run.StateRejected, step.Done)
			now := r.read(x)
			require.Equal(t, c.state, now.State)
			switch name {
			case "approved":
				require.Equal(t, "approved", r.status(*x.ApprovalID))
				require.Empty(t, step.ApprovalID)
			case "edited":
				require.Equal(t, *now.ApprovalID, step.ApprovalID, "the run waits for the one that replaced it")
			}
		})
	}
}
