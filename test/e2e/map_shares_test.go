package e2e

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// Maps of one tenant wait in line, and run one after the other. Those of another tenant end while
// the line still stands. CI makes a line of a hundred; `make bench` one of 10,000.
func TestMapsEndBesideTheLineOfAnotherTenant(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		const line = 100
		g, crowd := connected(t, s)
		trigger := publishOne(t, crowd, "queue", holdsAThing)
		first := crowd.Runtime.Do(http.MethodPost, trigger, payload("k", "first", modeHold), "Prefer: wait=0")
		require.Equal(t, http.StatusAccepted, first.Status, "%s", first.Body)
		var all sync.WaitGroup
		answers := make([]rig.Answer, line)
		for i := range answers {
			all.Go(func() {
				answers[i] = crowd.Runtime.Do(http.MethodPost, trigger, payload("k", strconv.Itoa(i), ""), "Prefer: wait=0")
			})
		}
		all.Wait()
		for _, a := range answers {
			require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
		}
		inLine := func() bool {
			var list []struct{ ExecutionID string }
			crowd.User.Do(http.MethodGet, "/v1/executions?kind=map&status=waiting&limit=1", nil).Data(t, &list)
			return len(list) > 0
		}
		_, other := bulky(t, s)
		quick := publish(t, other, "Makes one", `[{"id":"made","type":"verb","verb":"bulk:make","args":{"n":"${trigger_data.n}"}}]`)
		for _, n := range []string{"while none of them runs", "while one after the other runs"} {
			e := mapExecutionOf(t, other.Runtime.Do(http.MethodPost, quick, map[string]any{"payload": map[string]string{"n": n}}, "Prefer: wait=60"), http.StatusOK)
			require.Equal(t, "completed", e.Status)
			require.True(t, inLine(), n)
			g.open()
		}
	})
}

// The slow call is answered only when the write of the other branch has come.
func TestMapWritesBesideABranchWhoseCallLasts(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Slow beside quick", `[{"id":"both","type":"parallel","branches":[
			{"id":"slow","steps":[{"id":"s","type":"verb","verb":"gate:get_thing","args":{"id":"slow","mode":"hold"}}]},
			{"id":"quick","steps":[{"id":"w","type":"wait","for":"1s"},{"id":"q","type":"verb","verb":"gate:create_thing","args":{"id":"quick"}}]}]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		require.Equal(t, "slow", g.awaitArrival(t))
		rig.Until(t, arriveLimit, "the write comes while the slow call is open", func() bool { return len(g.of("quick")) > 0 })
		g.open()
		require.Equal(t, "completed", endOf(t, tenant, path).Status)
	})
}

// The same where a policy looks something up for the slow call. The look-up is answered when the write
// of the other branch has come.
func TestMapWritesBesideABranchWhoseLookupLasts(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		tenant.User.NewPolicy(t, rig.Policy("the thing is looked up", "block", "gate:create_thing", map[string]any{
			"lookups": []any{map[string]any{"name": "thing", "verb": "gate:get_thing", "args": map[string]any{"id": "lookup", "mode": modeHold}}},
			"conditions": []any{
				map[string]any{"field": "args.id", "operator": "equals", "value": "looked"},
				map[string]any{"field": "lookup.thing.id", "operator": "equals", "value": "nothing"},
			},
		}))
		trigger := publish(t, tenant, "Slow look-up beside quick", `[{"id":"both","type":"parallel","branches":[
			{"id":"slow","steps":[{"id":"s","type":"verb","verb":"gate:create_thing","args":{"id":"looked"}}]},
			{"id":"quick","steps":[{"id":"w","type":"wait","for":"1s"},{"id":"q","type":"verb","verb":"gate:create_thing","args":{"id":"quick"}}]}]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		require.Equal(t, "lookup", g.awaitArrival(t))
		rig.Until(t, arriveLimit, "the write comes while the look-up is open", func() bool { return len(g.of("quick")) > 0 })
		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
		for _, step := range e.Steps {
			if step.ID == "s" {
				require.Equal(t, "running", step.Status, "the look-up was not given up before")
			}
		}
		g.open()
		require.Equal(t, "completed", endOf(t, tenant, path).Status)
	})
}
