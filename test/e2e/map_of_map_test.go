package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mapID returns the id of the Map whose trigger has the path.
func mapID(trigger string) string {
	return strings.TrimSuffix(strings.TrimPrefix(trigger, "/v1/maps/"), "/trigger")
}

// childrenOf returns the executions that steps of an execution have started.
func childrenOf(t *testing.T, tenant *rig.Tenant, path string) []mapExecution {
	t.Helper()
	a := tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&parent_execution_id="+strings.TrimPrefix(path, "/v1/executions/"), nil)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	var list []mapExecution
	a.Data(t, &list)
	return list
}

func subMap(id, more string) string {
	return `{"id":"sub","type":"map","map_id":"` + id + `"` + more + `}`
}

func TestMapStartsAnother(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		double := publish(t, tenant, "Double", `[
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}},
			{"id":"n","type":"transform","expr":"${trigger_data.n * 2}"},
			{"id":"done","type":"return","output":{"n":"${steps.n.output}","text":"${trigger_data.text}"}}]`)
		large := strings.Repeat("x", 40<<10)
		list := ids(4)
		trigger := publish(t, tenant, "Outer", `[
			{"id":"each","type":"foreach","items":"${trigger_data.ids}","mode":"parallel","steps":[
				`+subMap(mapID(double), `,"payload":{"id":"${item}","n":"${index}","text":"${trigger_data.text}"}`)+`,
				{"id":"n","type":"transform","expr":["${steps.sub.output.n + 1}","${steps.sub.output.text | length}"]}]}]`)
		body := map[string]any{"payload": map[string]any{"ids": list, "text": large}}
		e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", e.Status)
		n := len(large)
		require.JSONEq(t, fmt.Sprintf(`[[1,%d],[3,%d],[5,%d],[7,%d]]`, n, n, n, n), string(e.Output))
		for _, id := range list {
			require.Len(t, g.of(id), 1)
		}
		children := childrenOf(t, tenant, "/v1/executions/"+e.ExecutionID)
		require.Len(t, children, 4)
		for _, child := range children {
			require.Equal(t, "completed", child.Status)
		}
	})
}

func TestEndsOfAnotherMapAreThoseOfTheStep(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		bad := mapID(publish(t, tenant, "Bad", `[{"id":"no","type":"raise","error":{"code":"NO_STOCK","title":"Sold out."}}]`))
		slow := mapID(publish(t, tenant, "Slow", `[{"id":"w","type":"wait","for":"1h"}]`))
		code := `{"id":"code","type":"transform","expr":["${steps.sub.error.code}","${steps.sub.error.instance}"]}`
		catch := `,"catch":[{"errors":["*"],"steps":[]}]`
		exact := `{"schema_version":"1","name":"Exact","trigger_schema":{"type":"object","required":["n"]},"steps":[]}`
		a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(exact))
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		exactID := strings.TrimPrefix(a.Header.Get("Location"), "/v1/maps/")
		for name, c := range map[string]struct{ steps, want string }{
			"fails":                {`[` + subMap(bad, catch) + `,` + code + `]`, `["NO_STOCK","/steps/0"]`},
			"refuses the payload":  {`[` + subMap(exactID, catch+`,"payload":{}`) + `,` + code + `]`, `["INVALID_ARGS","/steps/0"]`},
			"is not waited for":    {`[` + subMap(slow, `,"wait":false`) + `,{"id":"o","type":"transform","expr":"${steps.sub.output.execution_id | startswith(\"exec_\")}"}]`, `true`},
			"takes too long":       {`[` + subMap(slow, catch+`,"timeout":"1s"`) + `,` + code + `]`, `["STEP_TIMEOUT","/steps/0"]`},
			"lost against another": {`[{"id":"p","type":"parallel","join":"race","branches":[{"id":"a","steps":[` + subMap(slow, "") + `]},{"id":"b","steps":[{"id":"one","type":"transform","expr":1}]}]}]`, `{"a":null,"b":1}`},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := startMap(t, tenant, publish(t, tenant, "Outer "+name, c.steps), map[string]any{})
				e := endOf(t, tenant, path)
				require.Equal(t, "completed", e.Status, "%v", e.Error)
				require.JSONEq(t, c.want, string(e.Output))
				for _, child := range childrenOf(t, tenant, path) {
					if name == "takes too long" || name == "lost against another" {
						require.Equal(t, "cancelled", endOf(t, tenant, "/v1/executions/"+child.ExecutionID).Status)
					}
				}
			})
		}
	})
}

func TestCancelledMapCancelsTheOneItStarted(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		list := ids(2)
		inner := publish(t, tenant, "Inner", `[
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"},"compensate":{"verb":"gate:get_thing","args":{"id":"${trigger_data.undo}"}}},
			{"id":"w","type":"wait","event":{"type":"custom.never"}}]`)
		middle := publish(t, tenant, "Middle", `[`+subMap(mapID(inner), `,"payload":"${trigger_data}"`)+`]`)
		path := startMap(t, tenant, publish(t, tenant, "Outer", `[`+subMap(mapID(middle), `,"payload":"${trigger_data}"`)+`]`), map[string]any{"id": list[0], "undo": list[1]})
		// What the innermost waits for is what the outermost waits for.
		require.Eventually(t, func() bool {
			var e struct {
				Status     string
				WaitingFor *struct{ For string } `json:"waiting_for"`
			}
			tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
			return e.Status == "waiting" && e.WaitingFor != nil && e.WaitingFor.For == "event"
		}, arriveLimit, 20*time.Millisecond)
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		require.Equal(t, "cancelled", endOf(t, tenant, path).Status)
		child := childrenOf(t, tenant, path)
		require.Len(t, child, 1)
		require.Equal(t, "cancelled", child[0].Status)
		child = childrenOf(t, tenant, "/v1/executions/"+child[0].ExecutionID)
		require.Len(t, child, 1)
		require.Equal(t, "cancelled", child[0].Status)
		require.Len(t, g.of(list[0]), 1)
		require.Len(t, g.of(list[1]), 1, "the write is undone")
	})
}

func TestMapsStartEachOtherFiveDeep(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := newTenant(s)
	path := publish(t, tenant, "Five", `[{"id":"n","type":"transform","expr":"${trigger_data.n}"}]`)
	for _, name := range []string{"Four", "Three", "Two", "One"} {
		path = publish(t, tenant, name, `[`+subMap(mapID(path), `,"payload":{"n":"${trigger_data.n + 1}"}`)+`]`)
	}
	e := endOf(t, tenant, startMap(t, tenant, path, map[string]any{"n": 1}))
	require.Equal(t, "completed", e.Status, "%v", e.Error)
	require.JSONEq(t, `5`, string(e.Output))

	// What the definitions do not show is refused when it happens.
	refused := tenant.User.Do(http.MethodPost, "/v1/maps", json.RawMessage(`{"schema_version":"1","name":"Zero","steps":[`+subMap(mapID(path), "")+`]}`))
	require.Equal(t, http.StatusUnprocessableEntity, refused.Status, "%s", refused.Body)
}
