package governance

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// TestPoliciesUnreadableNothingIsSent takes Postgres away between the hold and
// the approval, and around calls that need no approval.
func TestPoliciesUnreadableNothingIsSent(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{Env: []string{"LOG_LEVEL=error"}})
	w := emptyWorld(t, s)
	w.leaves = true
	w.connect(bankPaths())
	w.gate(highWrite)
	held := w.hold(highWrite, callArgs(), "held")

	s.Kill("postgres")
	args := m{"id": "while away"}
	evaluate := func() rig.Answer {
		return w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", m{"verb": lowWrite, "args": args})
	}
	// A backend lives until it notices that its postmaster has died, and may still answer.
	rig.Until(t, time.Minute, "the backends end", func() bool { return evaluate().Status != http.StatusOK })
	for name, a := range map[string]rig.Answer{
		"evaluate": evaluate(),
		"run":      w.Runtime.Run(lowWrite, args, "away"),
		"a repeat": w.Runtime.Run(highWrite, callArgs(), "held"),
		"approve":  w.approve(held),
		"policy":   w.User.Do(http.MethodDelete, "/v1/policies/x", nil),
	} {
		require.NoError(t, a.Err, name)
		refused(t, a, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	}
	require.Zero(t, w.bank.effects())

	s.Restart("postgres")
	s.AwaitAPI()
	require.Equal(t, "pending", w.approval(held).Status)
	require.Equal(t, http.StatusOK, w.approve(held).Status)
	w.awaitStatus("held", "executed")
	require.Equal(t, 1, w.bank.effects())
	require.Empty(t, w.bank.of("while away"))
	require.Empty(t, w.unapproved())
}
