package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A step starts the version that it names, otherwise the published one. An execution goes on by the
// version that it began with.
func TestExecutionsKeepTheirVersionOfAMap(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		inner := publish(t, tenant, "Inner", `[{"id":"w","type":"wait","event":{"type":"go"}},{"id":"v","type":"transform","expr":"first"}]`)
		opened := startMap(t, tenant, inner, map[string]any{})
		outer := publish(t, tenant, "Outer", `[`+
			strings.Replace(subMap(mapID(inner), `,"version":1`), `"sub"`, `"first"`, 1)+`,`+
			strings.Replace(subMap(mapID(inner), ``), `"sub"`, `"published"`, 1)+`,
			{"id":"both","type":"transform","expr":["${steps.first.output}","${steps.published.output}"]}]`)
		waitsIn(t, tenant, opened, "w")
		a := tenant.User.Do(http.MethodPut, strings.TrimSuffix(inner, "/trigger")+"?publish=true",
			json.RawMessage(`{"schema_version":"1","name":"Inner","steps":[{"id":"v","type":"transform","expr":"second"}]}`))
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)

		path := startMap(t, tenant, outer, map[string]any{})
		rig.Until(t, arriveLimit, "the step has started its Map", func() bool { return len(childrenOf(t, tenant, path)) > 0 })
		first := "/v1/executions/" + childrenOf(t, tenant, path)[0].ExecutionID
		for _, waiting := range []string{opened, first} {
			waitsIn(t, tenant, waiting, "w")
			require.Equal(t, http.StatusOK, signal(t, tenant, waiting, "go", nil).Status)
		}
		require.JSONEq(t, `["first","second"]`, string(endOf(t, tenant, path).Output))
		require.JSONEq(t, `"first"`, string(endOf(t, tenant, opened).Output))
	})
}
