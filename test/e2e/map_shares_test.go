package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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

// patience is how long a call may take before the execution goes on beside it. The slack is what a
// loaded machine may take.
const (
	patience      = time.Second
	patienceSlack = 5 * time.Second
)

// soon waits for what may not wait for a call that lasts.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	rig.Until(t, patience+patienceSlack, what, done)
}

// While a call lasts, other branches go on, and so do timers, decisions, pause and cancel.
func TestCallThatLastsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Slow beside quick", `[{"id":"both","type":"parallel","branches":[
			{"id":"slow","steps":[{"id":"s","type":"verb","verb":"gate:get_thing","args":{"id":"slow","mode":"hold"}}]},
			{"id":"timed","steps":[{"id":"w","type":"wait","for":"1s"},{"id":"q","type":"verb","verb":"gate:create_thing","args":{"id":"quick"}}]},
			{"id":"asked","steps":[{"id":"ask","type":"approval","title":"Go?"},{"id":"a","type":"verb","verb":"gate:create_thing","args":{"id":"approved"}}]},
			{"id":"paused","steps":[{"id":"p","type":"wait","event":{"type":"go"}},{"id":"n","type":"verb","verb":"gate:create_thing","args":{"id":"next"}}]},
			{"id":"stopped","steps":[{"id":"r","type":"wait","for":"1h"}]}]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		require.Equal(t, "slow", g.awaitArrival(t))
		rig.Until(t, arriveLimit, "the write comes while the slow call is open", func() bool { return len(g.of("quick")) > 0 })
		require.Less(t, g.of("quick")[0].at.Sub(g.of("slow")[0].at), time.Second+patience+patienceSlack)

		var asked []decidedApproval
		soon(t, "people are asked", func() bool {
			tenant.User.Do(http.MethodGet, "/v1/approvals?kind=step&execution_id="+strings.TrimPrefix(path, "/v1/executions/"), nil).Data(t, &asked)
			return len(asked) == 1
		})
		decide(t, tenant.User, asked[0].ID, "approve", nil)
		soon(t, "the decision counts", func() bool { return len(g.of("approved")) > 0 })

		is := func(status, step, stepStatus string) func() bool {
			return func() bool {
				e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
				return (status == "" || e.Status == status) && statusOf(e, step) == stepStatus
			}
		}
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/pause", nil), http.StatusOK)
		soon(t, "it is paused", is("paused", "p", "waiting"))
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "go", nil).Status)
		soon(t, "the signal has come", is("paused", "p", "completed"))
		require.Empty(t, g.of("next"))
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/resume", nil), http.StatusOK)
		soon(t, "it goes on", func() bool { return len(g.of("next")) > 0 })

		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		soon(t, "what waits is stopped", is("", "r", "cancelled"))
		require.Len(t, g.of("slow"), 1, "the call was open all the time")
		g.open()
		require.Equal(t, "cancelled", endOf(t, tenant, path).Status)
	})
}

// While short calls follow each other without a pause, other branches go on, and so do timers and a cancel.
// The worker alone would pause after eight seconds, which is about 90 calls.
func TestChainOfShortCallsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	const links = 200
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "A chain beside a timer", `[{"id":"both","type":"parallel","branches":[
			{"id":"chain","steps":[{"id":"each","type":"foreach","items":"${[range(`+strconv.Itoa(links)+`)]}","steps":[
				{"id":"link","type":"verb","verb":"gate:get_thing","args":{"id":"link","mode":"while"}}]}]},
			{"id":"timed","steps":[{"id":"w","type":"wait","for":"1s"},{"id":"q","type":"verb","verb":"gate:create_thing","args":{"id":"quick"}}]}]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		rig.Until(t, arriveLimit, "the write comes while the chain goes on", func() bool { return len(g.of("quick")) > 0 })
		require.Less(t, g.before("quick"), 60, "links before the write that waits for a second")
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		asked := len(g.of("link"))
		require.Equal(t, "cancelled", endOf(t, tenant, path).Status)
		require.Less(t, len(g.of("link"))-asked, 50, "links after the cancel")
	})
}

// statusOf returns the status of a step, "" before it has begun.
func statusOf(e mapExecution, id string) string {
	for _, step := range e.Steps {
		if step.ID == id {
			return step.Status
		}
	}
	return ""
}

// Two loops ask for more calls at once than a provider of a tenant gets in one process: a sixteenth of
// 1,024. The rest waits for its turn, and other providers do not wait with it.
func TestLoopsTakeNoMoreThanTheShareOfTheirProvider(t *testing.T) {
	t.Parallel()
	const loops, items, share = 2, 50, 64
	g, tenant := connected(t, stack(t, split))
	other := newGate(t)
	tenant.Connect(t, "other", other.base, gateDocument(), "bearer", map[string]string{"token": "other-token"})
	trigger := publish(t, tenant, "Asks for many", `[{"id":"each","type":"foreach","items":"${[range(50)]}","mode":"parallel","concurrency":50,"steps":[
		{"id":"s","type":"verb","verb":"gate:get_thing","args":{"id":"${trigger_data.loop}-${index}","mode":"hold"}}]}]`)
	var paths []string
	for loop := range loops {
		paths = append(paths, startMap(t, tenant, trigger, map[string]any{"loop": loop}))
	}
	for range share {
		g.awaitArrival(t)
	}
	requireRun(t, tenant.Runtime.Run("other:get_thing", map[string]any{"id": "beside"}, ""))
	require.Len(t, g.all(), share)
	g.open()
	for _, path := range paths {
		require.Equal(t, "completed", endOf(t, tenant, path).Status)
	}
	require.Len(t, g.all(), loops*items)
	require.Equal(t, share, g.together())
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
