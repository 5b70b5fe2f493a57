package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A step whose call a kill switch covers waits, and its execution is paused. It goes on after the
// lift. A call over HTTP is blocked.
func TestMapWaitsForAKillSwitchToBeLifted(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for _, scope := range []map[string]any{{"scope": "tenant"}, {"scope": "provider", "target": "gate"}, {"scope": "verb", "target": "gate:create_thing"}} {
			g, tenant := connected(t, s)
			trigger := publish(t, tenant, "Reads and writes", `[
				{"id":"slow","type":"verb","verb":"gate:get_thing","args":{"id":"slow","mode":"hold"}},
				{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"made"}}]`)
			one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"), http.StatusAccepted)
			path := "/v1/executions/" + one.ExecutionID
			g.awaitArrival(t)
			scope["reason"] = "test"
			var set struct{ ID string }
			tenant.User.Do(http.MethodPost, "/v1/kill-switch", scope).Data(t, &set)
			g.open()

			stream := follow(t, tenant.User, path+"/stream", "")
			for {
				all := stream.until("status")
				var now struct {
					Status     string
					WaitingFor *struct{ For, Step string } `json:"waiting_for"`
				}
				require.NoError(t, json.Unmarshal([]byte(all[len(all)-1].data), &now))
				if now.Status == "paused" {
					require.Equal(t, "kill_switch", now.WaitingFor.For)
					require.Equal(t, "made", now.WaitingFor.Step)
					break
				}
			}
			requireCode(t, createNow(tenant.Runtime, "direct", ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			require.Empty(t, g.of("made"))
			require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/kill-switch/"+set.ID, nil).Status)
			all := stream.until("end")
			require.Contains(t, all[len(all)-1].data, `"status":"completed"`)
			require.Len(t, g.of("made"), 1)
		}
	})
}

// A call that waits for a lift has sent nothing, so a cancel ends it at once.
func TestSwitchedOffMapIsCancelled(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	trigger := publish(t, tenant, "Writes", `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"made"}}]`)
	require.Equal(t, http.StatusCreated, tenant.User.Do(http.MethodPost, "/v1/kill-switch", map[string]any{"scope": "tenant", "reason": "test"}).Status)
	one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"), http.StatusAccepted)
	path := "/v1/executions/" + one.ExecutionID
	rig.Until(t, arriveLimit, "the execution is paused", func() bool {
		return mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK).Status == "paused"
	})
	mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
	ended := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "cancelled", ended.Status)
	require.Empty(t, g.all())
}

// The steps of an execution act for the key that started it. Once it is revoked, no call begins.
func TestRevokedKeyEndsTheStepsOfItsExecutions(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Reads and writes", `[
			{"id":"slow","type":"verb","verb":"gate:get_thing","args":{"id":"slow","mode":"hold"}},
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"made"}}]`)
		key, id := newKey(t, tenant)
		one := mapExecutionOf(t, key.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		g.awaitArrival(t)
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/api-keys/"+id, nil).Status)
		g.open()
		ended := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "failed", ended.Status)
		require.Equal(t, "API_KEY_REVOKED", ended.Error.Code)
		require.Empty(t, g.of("made"))
	})
}
