package run_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

func TestResultOfARunWithoutOneIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "one", `{}`)
	require.NoError(t, err)
	got, err := r.Result(t.Context(), r.caller(), "one")
	require.NoError(t, err)
	require.NotEmpty(t, got)

	other := r.caller()
	other.ID = uuid.New()
	_, err = r.Result(t.Context(), other, "one")
	require.Equal(t, fault.CodeExecutionNotFound, fault.As(err).Code)
	_, err = r.Result(t.Context(), actor.Actor{Kind: actor.User, TenantID: uuid.New(), ID: uuid.New()}, "one")
	require.Equal(t, fault.CodeExecutionNotFound, fault.As(err).Code)

	r.policies(rule(governance.ActionBlock, "pay"))
	_, err = r.do("pay", "blocked", `{}`)
	require.NoError(t, err)
	_, err = r.Result(t.Context(), r.caller(), "blocked")
	require.Equal(t, fault.CodeConflict, fault.As(err).Code)
	require.Contains(t, fault.As(err).Message, "blocked")

	r.admin(`UPDATE runs SET result = 's1.broken' WHERE execution_id = 'one'`)
	_, err = r.Result(t.Context(), r.caller(), "one")
	require.Equal(t, fault.CodeExecutionUnreadable, fault.As(err).Code)
	r.admin(`UPDATE runs SET erased_at = now(), args = '{}', result = NULL WHERE execution_id = 'one'`)
	_, err = r.Result(t.Context(), r.caller(), "one")
	require.Equal(t, fault.CodeResultExpired, fault.As(err).Code)
}

// What a Map does for a key shows its results as executions do.
func TestResultOfAStepIsMaskedForItsKey(t *testing.T) {
	t.Parallel()
	key := uuid.New()
	who := actor.Actor{Kind: actor.Key, ID: key}
	own := run.Run{Origin: run.Origin{Kind: actor.Key, KeyID: &key}}
	step := run.Run{Origin: run.Origin{Kind: actor.Map, KeyID: &key}}
	require.True(t, run.CalledBy(own, who))
	require.False(t, run.CalledBy(step, who))
	require.False(t, run.CalledBy(own, actor.Actor{Kind: actor.User, ID: key}))
	require.False(t, run.CalledBy(own, actor.Actor{Kind: actor.Key, ID: uuid.New()}))
}
