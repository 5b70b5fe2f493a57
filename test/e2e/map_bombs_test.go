package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mapBomb is a Map with an expression that takes all memory or all time, in one of the places that
// have expressions.
type mapBomb struct {
	name, steps string
	// code is the error of the step b. Without output, the Map goes on after it.
	code string
	// output is the expression of the Map's own output.
	output string
}

func mapBombs() []mapBomb {
	return []mapBomb{
		{name: "index of a transform", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"transform","expr":"${null | .[536870910] = 1}","on_error":"continue"}`},
		{name: "index of an array", code: "EXPRESSION_ERROR", steps: `{"id":"b","type":"transform","expr":"${[][536870910] = 1}","on_error":"continue"}`},
		{name: "text of a variable", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"set","assign":{"x":"${\"x\" * 2000000000}"},"on_error":"continue"}`},
		{name: "array of a condition", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"switch","cases":[{"when":"${[range(1e12)] | length > 1}","steps":[]}],"on_error":"continue"}`},
		{name: "items of a loop", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"foreach","items":"${reduce range(60) as $i ([1]; . + .)}","steps":[{"id":"never","type":"transform","expr":"1"}],"on_error":"continue"}`},
		{name: "condition of a loop", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"while","max_iterations":3,"when":"${def f: [f]; f | length > 1}","steps":[{"id":"never","type":"transform","expr":"1"}],"on_error":"continue"}`},
		{name: "arguments of a call", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"verb","verb":"gate:create_thing","args":{"id":"${def f: f; f}"},"on_error":"continue"}`},
		{name: "condition to skip", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"transform","expr":"1","skip_if":"${reduce range(60) as $i (1; [., .]) | tojson | length > 1}","on_error":"continue"}`},
		{name: "length of a wait", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"wait","for":"${reduce range(60) as $i (\"x\"; . + .)}s","on_error":"continue"}`},
		{name: "output", code: "EXPRESSION_LIMIT", steps: `{"id":"b","type":"transform","expr":"1"}`, output: `${[range(1e12)]}`},
	}
}

// run triggers the Map and requires the error that its expression leads to.
func (b mapBomb) run(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	output := "${steps.after.output}"
	if b.output != "" {
		output = b.output
	}
	trigger := "/v1/maps/" + publishedMap(t, tenant, `{"schema_version":"1","name":"Bomb","output":"`+output+`","steps":[`+b.steps+`,{"id":"after","type":"transform","expr":"${1 + 1}"}]}`) + "/trigger"
	path := startMap(t, tenant, trigger, nil)
	e := endOf(t, tenant, path)
	if b.output != "" {
		require.Equal(t, "failed", e.Status)
		require.Equal(t, b.code, e.Error.Code)
		return
	}
	require.Equal(t, "completed", e.Status)
	require.Equal(t, "2", string(e.Output))
	for _, s := range e.Steps {
		if s.ID == "b" {
			require.Equal(t, "failed", s.Status)
			require.NotNil(t, s.Error)
			require.Equal(t, b.code, s.Error.Code, s.Error.Detail)
			require.LessOrEqual(t, s.Attempts, 1, "what failed at its limit fails again")
		}
	}
}

// An expression that takes all it can get fails its step, wherever it stands. The worker that evaluated
// it goes on with other Maps.
func TestMapBombsFailTheirStepsAlone(t *testing.T) { //nolint:tparallel // what follows them looks at the worker
	t.Parallel()
	s := stack(t, split)
	worker := s.Parts["worker"]
	g, tenant := connected(t, s)
	t.Run("bombs", func(t *testing.T) {
		for _, b := range mapBombs() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				b.run(t, tenant)
			})
		}
	})
	requireAlive(t, s, worker)
	trigger := publish(t, tenant, "Ordinary", `[{"id":"call","type":"verb","verb":"gate:create_thing","args":{"id":"ordinary"}},{"id":"sum","type":"transform","expr":"${[range(3)] | add}"}]`)
	e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "3", string(e.Output))
	require.Len(t, g.all(), 1, "no call came of the bombs")
}

// The key of a concurrency is evaluated while the caller of the trigger waits.
func TestMapBombInAConcurrencyKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant := newTenant(s)
	trigger := "/v1/maps/" + publishedMap(t, tenant, `{"schema_version":"1","name":"Bomb","concurrency":{"key":"${\"x\" * 2000000000}","limit":1,"when_full":"queue"},"steps":[{"id":"a","type":"transform","expr":"1"}]}`) + "/trigger"
	a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{})
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
	require.Contains(t, string(a.Body), "concurrency_key")
	requireAlive(t, s, s.Parts["api"])
}

// requireAlive checks that the part has not ended since it was looked up.
func requireAlive(t *testing.T, s *rig.Stack, was *rig.Process) {
	t.Helper()
	require.Equal(t, was.Pid(), s.Parts[was.Name].Pid())
	select {
	case <-was.Done():
		require.Fail(t, was.Name+" has ended", was.Log()[max(0, len(was.Log())-4000):])
	default:
	}
	require.NotContains(t, was.Log(), "panic:", was.Name)
}

// Loops without steps make no call, and could compute for hours. They let a cancellation through, and end.
func TestLoopsOfNothingAreCancelled(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant := newTenant(s)
	path := startMap(t, tenant, publish(t, tenant, "Nothing", `[{"id":"a","type":"foreach","items":"${[range(10000)]}","mode":"parallel","concurrency":50,"steps":[
		{"id":"b","type":"foreach","items":"${[range(10000)]}","mode":"parallel","concurrency":50,"steps":[]}]}]`), map[string]any{})
	mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
	require.Equal(t, "cancelled", endOf(t, tenant, path).Status)
	requireAlive(t, s, s.Parts["worker"])
}
