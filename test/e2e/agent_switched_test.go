package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call of a message that a kill switch covers waits, and the message is paused. It is sent after the
// lift. A message that is cancelled meanwhile sends nothing.
func TestMessageWaitsForAKillSwitchToBeLifted(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, split))
	path, key := agentOf(t, tenant, nil)
	agent := strings.TrimSuffix(strings.TrimPrefix(path, "/v1/agents/"), "/message")
	a := tenant.User.Do(http.MethodPost, "/v1/kill-switch", map[string]any{"scope": "agent", "target": agent, "reason": "test"})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var set struct{ ID string }
	a.Data(t, &set)
	one := saidOf(t, key.Do(http.MethodPost, path, write("Make the kiwi", "s1"), "Prefer: wait=0"), http.StatusAccepted)
	other := saidOf(t, key.Do(http.MethodPost, path, write("Make the kiwi", "s2"), "Prefer: wait=0"), http.StatusAccepted)
	executionUntil(t, tenant, one.ExecutionID, "paused")
	executionUntil(t, tenant, other.ExecutionID, "paused")
	require.Empty(t, g.of("kiwi"))
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+other.ExecutionID+"/cancel", nil).Status)
	executionUntil(t, tenant, other.ExecutionID, "cancelled")
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/kill-switch/"+set.ID, nil).Status)
	require.Equal(t, "Here is the kiwi.", *executionUntil(t, tenant, one.ExecutionID, "completed").Reply)
	require.Len(t, g.of("kiwi"), 2)
}
