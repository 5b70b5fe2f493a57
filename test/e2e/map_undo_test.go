package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// What undoes a step is a governed call. One that a policy blocks does not keep the others from being
// made, and one that is held waits for people.
func TestCallsThatUndoAreGoverned(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		list := ids(6)
		trigger := publish(t, tenant, "Undoes what it did", `[
			{"id":"a","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.a}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${trigger_data.undo_a}"}}},
			{"id":"b","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.b}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${trigger_data.undo_b}"}}},
			{"id":"c","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.c}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${trigger_data.undo_c}"}}},
			{"id":"stop","type":"raise","error":{"code":"STOPPED"}}]`)
		about := func(action, id string) map[string]any {
			return map[string]any{
				"name": action + " " + id, "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}},
				"conditions": []any{map[string]any{"field": "args.id", "operator": "equals", "value": id}}, "action": map[string]any{"type": action},
			}
		}
		tenant.User.NewPolicy(t, about("require_approval", list[4]))
		tenant.User.NewPolicy(t, about("block", list[5]))
		payload := map[string]any{"a": list[0], "b": list[1], "c": list[2], "undo_a": list[3], "undo_b": list[4], "undo_c": list[5]}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload}, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		var waiting []struct{ ID string }
		rig.Until(t, arriveLimit, "the second call is held", func() bool {
			tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &waiting)
			return len(waiting) == 1
		})
		require.Empty(t, g.of(list[5]), "it is blocked")
		require.Empty(t, g.of(list[4]), "it is held")
		require.Empty(t, g.of(list[3]), "it comes after the held one")
		decide(t, tenant.User, waiting[0].ID, "approve", nil)
		end := ended(t, tenant, path)
		require.Equal(t, "failed", end.Status)
		require.Equal(t, "STOPPED", end.Error.Code)
		require.Len(t, g.of(list[4]), 1)
		require.Len(t, g.of(list[3]), 1)
		require.Empty(t, g.of(list[5]))
		var blocked []struct{ Metadata map[string]string }
		tenant.User.Do(http.MethodGet, "/v1/executions?status=blocked", nil).Data(t, &blocked)
		require.Len(t, blocked, 1, "people find the call that was not made")
		require.NotEmpty(t, blocked[0].Metadata["map_id"])
	})
}
