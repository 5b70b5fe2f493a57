package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A process remembers which version of a Map triggers run. What was published or deleted since counts
// all the same, and so does a trigger_schema of a version that it does not know yet.
func TestTriggersRunThePublishedVersion(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		versionOf := func(output, required string) map[string]any {
			return map[string]any{
				"schema_version": "1", "name": "Changes", "steps": []map[string]any{{"id": "one", "type": "transform", "expr": "${1}"}}, "output": output,
				"trigger_schema": map[string]any{"type": "object", "required": []string{required}},
			}
		}
		made := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", versionOf("first", "old"))
		require.Equal(t, http.StatusCreated, made.Status, "%s", made.Body)
		path := made.Header.Get("Location")
		run := func(session string, payload map[string]any) rig.Answer {
			return tenant.Runtime.Do(http.MethodPost, path+"/trigger", map[string]any{"payload": payload, "session_id": session})
		}
		output := func(a rig.Answer) (out string) {
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			var e struct{ Output string }
			a.Data(t, &e)
			return e.Output
		}
		for _, session := range []string{"a", "b", "c", "c"} {
			require.Equal(t, "first", output(run(session, map[string]any{"old": 1})))
		}
		require.Equal(t, "INVALID_ARGS", run("d", map[string]any{"new": 1}).Code(t))

		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, path+"?publish=true", versionOf("second", "new")).Status)
		require.Equal(t, "second", output(run("d", map[string]any{"new": 1})), "its payload fits the new version only")
		require.Equal(t, "second", output(run("e", map[string]any{"new": 1, "old": 1})))
		require.Equal(t, "INVALID_ARGS", run("f", map[string]any{"old": 1}).Code(t))
		require.Equal(t, "second", output(run("f", map[string]any{"new": 1})), "what was refused has no name")
		require.Equal(t, "first", output(run("c", map[string]any{"old": 1})), "names come before the trigger_schema")

		inLanes := versionOf("third", "new")
		inLanes["concurrency"] = map[string]any{"key": "${trigger_data.lane | ascii_downcase}", "limit": 1}
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, path+"?publish=true", inLanes).Status)
		require.Equal(t, "INVALID_ARGS", run("x", map[string]any{"new": 1}).Code(t))
		require.Equal(t, "third", output(run("x", map[string]any{"new": 1, "lane": "a"})))
		require.Equal(t, "third", output(run("x", map[string]any{"new": 1})), "names come before the concurrency key")

		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/publish", map[string]any{"version": 1}).Status)
		require.Equal(t, "first", output(run("g", map[string]any{"new": 1, "old": 1})))

		var trail []struct {
			ExecutionID string `json:"execution_id"`
		}
		tenant.User.Do(http.MethodGet, "/v1/audit?action=map.triggered", nil).Data(t, &trail)
		require.Len(t, trail, 8, "one for each fresh execution, none for a repeat")

		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, path, nil).Status)
		require.Equal(t, "MAP_NOT_FOUND", run("h", map[string]any{"new": 1, "old": 1}).Code(t))
	})
}
