package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
)

// The program is in the row before the call leaves, so no crash after that loses it, and no later
// import changes it.
func TestRunKeepsTheProgramOfItsVerb(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := func(program string) { r.targets.normalizer.Store(&program) }
	set(`{id}`)
	first, err := r.do("pay", "one", `{}`)
	require.NoError(t, err)
	require.Equal(t, `{id}`, first.Run.Normalizer)
	set(`{other: .id}`)
	again, err := r.do("pay", "one", `{}`)
	require.NoError(t, err)
	require.True(t, again.Cached)
	require.Equal(t, `{id}`, again.Run.Normalizer)

	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	lost, err := r.do("pay", "lost", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateOutcomeUnknown, lost.Run.State)
	set("")
	settled, err := r.Resolve(t.Context(), actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.user("owner")}, "lost", run.Resolution{Executed: true, Reason: "it is there"})
	require.NoError(t, err)
	require.Equal(t, `{other: .id}`, settled.Normalizer, "people settle it later")

	n, err := r.Get(t.Context(), r.caller(), "one")
	require.NoError(t, err)
	require.Equal(t, `{id}`, n.Normalizer)
}
