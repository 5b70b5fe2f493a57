package run_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
)

// A use is taken some time before the call is sent. The policies may ask for more approvals
// in between. Then people are asked, and the grant no longer counts.
func TestGrantThatWasTakenIsCheckedAgainstThePresentPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.grant("pay", r.user("owner"), 9)
	r.engine.dead.Store(true) // steps are taken by hand
	wait := time.Duration(0)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &wait })
	require.NoError(t, err)
	x := out.Run
	step, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	require.NotNil(t, r.read(x).GrantID)

	r.policies(rule(governance.ActionRequireApproval, "pay", needs(2)))
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StatePending, step.State)
	require.Zero(t, r.provider.effects.Load())

	r.admin(`UPDATE grants SET revoked_at = now()`)
	x = r.read(x)
	require.Empty(t, r.decide(x, r.user("owner"), "approve").Code)
	require.Empty(t, r.decide(x, r.user("admin"), "approve").Code)
	r.engine.dead.Store(false)
	require.Equal(t, run.StateExecuted, r.wake(x).State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// A run that no longer needs its grant is sent, even where the grant has ended.
func TestEndOfAGrantThatIsNotNeededDoesNotStopTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.grant("pay", r.user("owner"), 9)
	r.engine.dead.Store(true) // steps are taken by hand
	wait := time.Duration(0)
	out, err := r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &wait })
	require.NoError(t, err)
	x := out.Run
	_, err = r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.NotNil(t, r.read(x).GrantID)

	r.policies()
	r.admin(`UPDATE grants SET revoked_at = now()`)
	step, err := r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State, "the policies have changed: it is judged again")
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, step.State)
	require.Nil(t, r.read(x).GrantID)
}
