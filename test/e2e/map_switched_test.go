package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

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

// A call that a policy holds after the lift waits for people, and is sent when they have approved it.
func TestMapIsHeldAfterAKillSwitchIsLifted(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		held(t, tenant, "gate:create_thing")
		var set struct{ ID string }
		tenant.User.Do(http.MethodPost, "/v1/kill-switch", map[string]any{"scope": "tenant", "reason": "test"}).Data(t, &set)
		id := ids(1)[0]
		path := startMap(t, tenant, publish(t, tenant, "Is switched off, then held", `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"`+id+`"}}]`), map[string]any{})
		stands(t, tenant, path, "paused")
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/kill-switch/"+set.ID, nil).Status)
		decide(t, tenant.User, awaitAsking(t, tenant, path), "approve", nil)
		require.Equal(t, "completed", endOf(t, tenant, path).Status)
		require.Len(t, g.of(id), 1)
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

// A key that expires or is rotated stops nothing that it has started.
func TestKeyThatExpiresOrIsRotatedStopsNoExecution(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Reads and writes", `[
			{"id":"slow","type":"verb","verb":"gate:get_thing","args":{"id":"slow","mode":"hold"}},
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}]`)
		rotated, id := newKey(t, tenant)
		var made rig.Key
		soonOver := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
		tenant.User.MakeKey(map[string]any{"name": "expires", "permissions": rig.RuntimePermissions(), "expires_at": soonOver}).Data(t, &made)
		keys := map[string]*rig.Client{"expired": tenant.Runtime.With(made.Key, ""), "rotated": rotated}

		var paths []string
		for _, name := range []string{"expired", "rotated"} {
			a := keys[name].Do(http.MethodPost, trigger, map[string]any{"payload": map[string]string{"id": name}}, "Prefer: wait=0")
			paths = append(paths, "/v1/executions/"+mapExecutionOf(t, a, http.StatusAccepted).ExecutionID)
			require.Equal(t, "slow", g.awaitArrival(t))
		}
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, "/v1/api-keys/"+id+"/rotate", nil).Status)
		for name, key := range keys {
			rig.Until(t, arriveLimit, "the key is "+name, func() bool {
				return key.Do(http.MethodGet, "/v1/runtime/actions/catalog", nil).Status == http.StatusUnauthorized
			})
		}
		g.open()
		for _, path := range paths {
			require.Equal(t, "completed", endOf(t, tenant, path).Status)
		}
		for name := range keys {
			require.Len(t, g.of(name), 1)
		}
	})
}
