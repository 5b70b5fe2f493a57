package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// publishOne publishes a Map of which one execution for each key runs at a time.
func publishOne(t *testing.T, tenant *rig.Tenant, whenFull, steps string) string {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"One at a time","steps":`+steps+`,
		"concurrency":{"key":"${trigger_data.key}","limit":1,"when_full":"`+whenFull+`"}}`))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	return a.Header.Get("Location") + "/trigger"
}

const holdsAThing = `[{"id":"held","type":"verb","verb":"gate:get_thing","args":{"id":"${trigger_data.id}","mode":"${trigger_data.mode}"}}]`

func payload(key, id, mode string) map[string]any {
	return map[string]any{"payload": map[string]any{"key": key, "id": id, "mode": mode}}
}

func endAt(t *testing.T, c *rig.Client, path string) mapExecution {
	t.Helper()
	return mapExecutionOf(t, c.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
}

func TestExecutionsOfOneKeyWaitForTheirPlace(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publishOne(t, tenant, "queue", holdsAThing)
		begin := func(key, id, mode string) string {
			a := tenant.Runtime.Do(http.MethodPost, trigger, payload(key, id, mode), "Prefer: wait=0")
			return "/v1/executions/" + mapExecutionOf(t, a, http.StatusAccepted).ExecutionID
		}
		first := begin("a", "first", modeHold)
		require.Equal(t, "first", g.awaitArrival(t))
		second, cancelled, third := begin("a", "second", ""), begin("a", "cancelled", ""), begin("a", "third", "")
		var waits struct {
			Status     string
			WaitingFor struct{ For string } `json:"waiting_for"`
		}
		tenant.User.Do(http.MethodGet, second, nil).Data(t, &waits)
		require.Equal(t, "waiting", waits.Status)
		require.Equal(t, "concurrency", waits.WaitingFor.For)
		other := tenant.Runtime.Do(http.MethodPost, trigger, payload("b", "other", ""), "Prefer: wait=60")
		require.Equal(t, "completed", mapExecutionOf(t, other, http.StatusOK).Status, "another key does not wait")
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, cancelled+"/cancel", nil), http.StatusOK)
		require.Equal(t, "cancelled", endAt(t, tenant.User, cancelled).Status)
		require.Empty(t, g.of("second"))

		g.open()
		for _, path := range []string{first, second, third} {
			require.Equal(t, "completed", endAt(t, tenant.User, path).Status)
		}
		require.Empty(t, g.of("cancelled"))
		var order []string
		for _, h := range g.all() {
			if h.id != "other" {
				order = append(order, h.id)
			}
		}
		require.Equal(t, []string{"first", "second", "third"}, order)
	})
}

// Executions without a key would wait for each other, by a payload that lacks a member.
func TestTriggerWithoutAConcurrencyKeyIsRefused(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	trigger := publishOne(t, tenant, "queue", holdsAThing)
	for _, key := range []any{nil, ""} {
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"session_id": "s", "payload": map[string]any{"key": key, "id": "x"}})
		requireCode(t, a, http.StatusUnprocessableEntity, "INVALID_ARGS")
		require.Contains(t, string(a.Body), "null or empty")
	}
	begun := tenant.Runtime.Do(http.MethodPost, trigger, payload("a", "x", ""), "Prefer: wait=60")
	require.Equal(t, "completed", mapExecutionOf(t, begun, http.StatusOK).Status)
}

func TestFullKeyRefusesAndClaimsNoName(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	trigger := publishOne(t, tenant, "refuse", holdsAThing)
	one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, payload("a", "first", modeHold), "Prefer: wait=0"), http.StatusAccepted)
	g.awaitArrival(t)
	body := payload("a", "second", "")
	body["session_id"] = "second"
	requireCode(t, tenant.Runtime.Do(http.MethodPost, trigger, body), http.StatusConflict, "CONFLICT")
	g.open()
	require.Equal(t, "completed", endAt(t, tenant.User, "/v1/executions/"+one.ExecutionID).Status)
	done := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "executed", done.FenceStatus)
	requireCode(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"key": strings.Repeat("x", 2000)}}),
		http.StatusUnprocessableEntity, "INVALID_ARGS")
}

// The older execution undoes what it has done. Then the newer one begins.
func TestNewerExecutionReplacesTheOlderOne(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publishOne(t, tenant, "replace", `[
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"},"compensate":{"verb":"gate:create_thing","args":{"id":"undo ${trigger_data.id}"}}},
			{"id":"pause","type":"wait","for":"${trigger_data.mode}"}]`)
		begin := func(id, wait string) string {
			a := tenant.Runtime.Do(http.MethodPost, trigger, payload("a", id, wait), "Prefer: wait=0")
			return "/v1/executions/" + mapExecutionOf(t, a, http.StatusAccepted).ExecutionID
		}
		first := begin("first", "1h")
		rig.Until(t, arriveLimit, "the first waits", func() bool {
			return mapExecutionOf(t, tenant.User.Do(http.MethodGet, first, nil), http.StatusOK).Status == "waiting"
		})
		second := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, payload("a", "second", "1ms"), "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", second.Status)
		require.Equal(t, "cancelled", endAt(t, tenant.User, first).Status)
		var order []string
		for _, h := range g.all() {
			order = append(order, h.id)
		}
		require.Equal(t, []string{"first", "undo first", "second"}, order)
	})
}

// Of forty triggers at once over two API processes, one runs at a time and each runs once.
func TestManyExecutionsOfOneKeyRunOneByOne(t *testing.T) {
	t.Parallel()
	both := sharedSplit()
	g, tenant := connected(t, both.first.For(t))
	trigger := publishOne(t, tenant, "queue", holdsAThing)
	clients := []*rig.Client{tenant.Runtime, {Base: both.second.APIURL, Key: tenant.Runtime.Key, HTTP: rig.NewHTTP()}}
	list := ids(40)
	var all sync.WaitGroup
	answers := make([]rig.Answer, len(list))
	for i, id := range list {
		all.Go(func() {
			answers[i] = clients[i%2].Do(http.MethodPost, trigger, payload("one", id, modeMoment), "Prefer: wait=60")
		})
	}
	all.Wait()
	for i, a := range answers {
		require.Equal(t, "completed", mapExecutionOf(t, a, http.StatusOK).Status)
		require.Len(t, g.of(list[i]), 1)
	}
	require.Equal(t, 1, g.together(), "one after the other")
}
