package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// TestCallsWhileTemporalIsAway makes calls that the engine cannot take. One with an id of the
// caller's stands and runs later, once. One without is withdrawn before it is answered: its
// caller can only make another, and both would run.
func TestCallsWhileTemporalIsAway(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{Env: []string{"LOG_LEVEL=error"}})
	g, tenant := connected(t, s)
	g.open()
	list := ids(3)
	requireRun(t, createNow(tenant.Runtime, list[2], ""))
	s.Kill("temporal")

	var withdrawn []string
	for range 2 {
		a := tenant.Runtime.Run("gate:create_thing", map[string]any{"id": list[0]}, "")
		e := requireCode(t, a, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
		require.True(t, e.Error.Retryable)
		require.Contains(t, e.Error.Message, "withdrawn")
		withdrawn = append(withdrawn, e.Error.ExecutionID)
	}
	e := requireCode(t, createNow(tenant.Runtime, list[1], ""), http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	require.Contains(t, e.Error.Message, "stands")
	for _, id := range withdrawn {
		require.Equal(t, "cancelled", executionOf(t, tenant.Runtime, id).Status)
	}

	s.Restart("temporal")
	rig.Until(t, terminalLimit, "the call with an id runs", func() bool {
		return executionOf(t, tenant.Runtime, list[1]).Status == "executed"
	})
	require.Len(t, g.of(list[1]), 1)
	require.Empty(t, g.of(list[0]))
	for _, id := range withdrawn {
		require.Equal(t, "cancelled", executionOf(t, tenant.Runtime, id).Status)
	}
	require.Equal(t, "executed", requireRun(t, tenant.Runtime.Run("gate:create_thing", map[string]any{"id": list[0]}, "")).FenceStatus)
	require.Len(t, g.of(list[0]), 1, "one was wanted")
}
