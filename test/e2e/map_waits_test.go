package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// startMap triggers a Map and returns the path of the execution, which goes on. One that fails soon may have
// failed before the answer.
func startMap(t *testing.T, tenant *rig.Tenant, trigger string, payload any) string {
	t.Helper()
	a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload}, "Prefer: wait=0")
	require.NoError(t, a.Err)
	if failed := a.Envelope(t).Error; failed != nil && failed.Code == "MAP_FAILED" {
		return "/v1/executions/" + failed.ExecutionID
	}
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, a.Status, "%s", a.Body)
	var e mapExecution
	a.Data(t, &e)
	return "/v1/executions/" + e.ExecutionID
}

// endOf waits for the end of an execution. It asks more than once: an expression whose child got too little
// of a busy processor is evaluated again, some of them several times, and that may take minutes.
func endOf(t *testing.T, tenant *rig.Tenant, path string) mapExecution {
	t.Helper()
	ended := []string{"completed", "failed", "cancelled"}
	var e mapExecution
	for range 5 {
		e = mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
		if slices.Contains(ended, e.Status) {
			break
		}
	}
	require.Contains(t, ended, e.Status)
	return e
}

// waitsIn waits until the execution waits in the step.
func waitsIn(t *testing.T, tenant *rig.Tenant, path, step string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var e struct {
			WaitingFor *struct{ Step string } `json:"waiting_for"`
		}
		tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
		return e.WaitingFor != nil && e.WaitingFor.Step == step
	}, arriveLimit, 20*time.Millisecond, "%s does not wait in %s", path, step)
}

// signal sends a signal.
func signal(t *testing.T, tenant *rig.Tenant, path, name string, data any, headers ...string) rig.Answer {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, path+"/signal", map[string]any{"name": name, "data": data}, headers...)
	require.NoError(t, a.Err)
	return a
}

// send sends a custom event.
func send(t *testing.T, tenant *rig.Tenant, kind, correlate string, data any) {
	t.Helper()
	body := map[string]any{"id": uuid.NewString(), "type": kind, "data": data}
	if correlate != "" {
		body["correlate"] = correlate
	}
	made := tenant.User.NewKey(t, "events:send")
	sender := &rig.Client{Base: tenant.Runtime.Base, Key: made.Key, HTTP: rig.NewHTTP()}
	a := sender.Do(http.MethodPost, "/v1/events", body)
	require.NoError(t, a.Err)
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
}

func TestSignalIsKeptUntilAStepUsesIt(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		trigger := publish(t, tenant, "Signals", `[
			{"id":"first","type":"wait","event":{"type":"first"}},
			{"id":"second","type":"wait","event":{"type":"second","filter":"${.data.yes}"}},
			{"id":"out","type":"transform","expr":["${steps.first.output.data}","${steps.second.output.data.n}","${steps.second.output.type}"]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		waitsIn(t, tenant, path, "first")
		require.Contains(t, string(tenant.User.Do(http.MethodGet, path, nil).Body), `"output":null,`, "there is none yet")
		misspelt := signal(t, tenant, path, "frist", "go")
		require.Equal(t, http.StatusBadRequest, misspelt.Status)
		require.Contains(t, string(misspelt.Body), "Steps wait for first, second.", "no step would ever use it")
		// The second step does not wait yet, and its filter refuses the first of these.
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "second", map[string]any{"yes": false, "n": 1}).Status)
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "second", map[string]any{"yes": true, "n": 2}).Status)
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "first", "go").Status)
		e := endOf(t, tenant, path)
		require.Equal(t, "completed", e.Status, "%v", e.Error)
		require.JSONEq(t, `["go",2,"second"]`, string(e.Output))
		require.Equal(t, http.StatusConflict, signal(t, tenant, path, "first", nil).Status, "it has ended")
		require.Equal(t, http.StatusForbidden, tenant.Runtime.Do(http.MethodPost, path+"/signal", map[string]any{"name": "first"}).Status, "keys send none")
	})
}

func TestEachSignalOfALoopCountsOnce(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		trigger := publish(t, tenant, "Loop", `[
			{"id":"each","type":"foreach","items":"${[range(5)]}","steps":[
				{"id":"next","type":"wait","event":{"type":"next"}},
				{"id":"n","type":"transform","expr":"${steps.next.output.data}"}]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		for n := range 5 {
			require.Equal(t, http.StatusOK, signal(t, tenant, path, "next", n, fmt.Sprintf("Idempotency-Key: n%d", n)).Status)
			// A repeat sends nothing.
			require.Equal(t, http.StatusOK, signal(t, tenant, path, "next", n, fmt.Sprintf("Idempotency-Key: n%d", n)).Status)
		}
		require.JSONEq(t, `[0,1,2,3,4]`, string(endOf(t, tenant, path).Output))
	})
}

func TestSignalOverTheLimitIsRefusedUntilOneIsUsed(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := newTenant(s)
	trigger := publish(t, tenant, "Full", `[
		{"id":"go","type":"wait","event":{"type":"go"}},
		{"id":"used","type":"wait","event":{"type":"kept"}},
		{"id":"end","type":"wait","event":{"type":"end"}},
		{"id":"size","type":"transform","expr":["${steps.used.output.data.text | length}","${steps.used.output.data.n}"]}]`)
	path := startMap(t, tenant, trigger, map[string]any{})
	// Large data is not in the state of the execution.
	text := strings.Repeat("x", 8<<10)
	for n := range 100 {
		a := signal(t, tenant, path, "kept", map[string]any{"n": n, "text": text})
		require.Equal(t, http.StatusOK, a.Status, "%d: %s", n, a.Body)
	}
	full := signal(t, tenant, path, "go", nil)
	require.Equal(t, http.StatusConflict, full.Status, "%s", full.Body)
	require.Equal(t, "CONFLICT", full.Envelope(t).Error.Code)
	require.Equal(t, http.StatusBadRequest, signal(t, tenant, path, "go", strings.Repeat("x", 33<<10)).Status)
	mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
	require.Equal(t, "cancelled", endOf(t, tenant, path).Status)

	// One that is used makes room for another.
	path = startMap(t, tenant, trigger, map[string]any{})
	for n := range 99 {
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "kept", map[string]any{"n": n, "text": text}).Status)
	}
	require.Equal(t, http.StatusOK, signal(t, tenant, path, "go", nil).Status)
	waitsIn(t, tenant, path, "end")
	require.Equal(t, http.StatusOK, signal(t, tenant, path, "end", nil).Status)
	require.JSONEq(t, fmt.Sprintf(`[%d,0]`, len(text)), string(endOf(t, tenant, path).Output))
}

func TestMapWaitsForEvents(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		for name, c := range map[string]struct {
			steps string
			sent  func(t *testing.T, tenant *rig.Tenant, path string)
			want  string
		}{
			"before its step": {
				`[{"id":"first","type":"wait","event":{"type":"go"}},{"id":"w","type":"wait","event":{"type":"custom.paid"}},{"id":"o","type":"transform","expr":"${steps.w.output.data.sum}"}]`,
				func(t *testing.T, tenant *rig.Tenant, path string) {
					t.Helper()
					send(t, tenant, "custom.paid", "", map[string]any{"sum": 7})
					waitsIn(t, tenant, path, "first")
					signal(t, tenant, path, "go", nil)
				}, `7`,
			},
			"while it waits, with correlate and filter": {
				`[{"id":"w","type":"wait","event":{"type":"custom.shipped","correlate":"${trigger_data.order}","filter":"${.data.carrier == \"post\"}"}},
				  {"id":"o","type":"transform","expr":["${steps.w.output.data.n}","${steps.w.output.correlate}","${steps.w.output.type}","${steps.w.output.time == steps.w.output.timestamp}"]}]`,
				func(t *testing.T, tenant *rig.Tenant, path string) {
					t.Helper()
					waitsIn(t, tenant, path, "w")
					send(t, tenant, "custom.shipped", "o-2", map[string]any{"carrier": "post", "n": 1})
					send(t, tenant, "custom.shipped", "o-1", map[string]any{"carrier": "drone", "n": 2})
					send(t, tenant, "custom.packed", "o-1", map[string]any{"carrier": "post", "n": 3})
					send(t, tenant, "custom.shipped", "o-1", map[string]any{"carrier": "post", "n": 4})
				}, `[4,"o-1","custom.shipped",true]`,
			},
			"not those before the step, where it says so": {
				`[{"id":"first","type":"wait","event":{"type":"go"}},{"id":"w","type":"wait","event":{"type":"custom.paid","since":"step"}},{"id":"o","type":"transform","expr":"${steps.w.output.data.sum}"}]`,
				func(t *testing.T, tenant *rig.Tenant, path string) {
					t.Helper()
					waitsIn(t, tenant, path, "first")
					send(t, tenant, "custom.paid", "", map[string]any{"sum": 1})
					signal(t, tenant, path, "go", nil)
					waitsIn(t, tenant, path, "w")
					send(t, tenant, "custom.paid", "", map[string]any{"sum": 2})
				}, `2`,
			},
			"of its own, and of the service": {
				`[{"id":"tell","type":"emit","event":"custom.told","data":{"n":1}},{"id":"w","type":"wait","event":{"type":"custom.told"}},
				  {"id":"s","type":"wait","event":{"type":"customer.created"}},{"id":"o","type":"transform","expr":["${steps.w.output.data.n}","${steps.s.output.event}"]}]`,
				func(t *testing.T, tenant *rig.Tenant, path string) {
					t.Helper()
					waitsIn(t, tenant, path, "s")
					a := tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": uuid.NewString()})
					require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
				}, `[1,"customer.created"]`,
			},
			"each once in a loop": {
				`[{"id":"l","type":"foreach","items":[1,2,3],"steps":[{"id":"w","type":"wait","event":{"type":"custom.n"}},{"id":"n","type":"transform","expr":"${steps.w.output.data.n}"}]}]`,
				func(t *testing.T, tenant *rig.Tenant, _ string) {
					t.Helper()
					for n := range 3 {
						send(t, tenant, "custom.n", "", map[string]any{"n": n})
					}
				}, `[0,1,2]`,
			},
			"in all branches": {
				`[{"id":"p","type":"parallel","branches":[
					{"id":"a","steps":[{"id":"wa","type":"wait","event":{"type":"custom.both"}},{"id":"na","type":"transform","expr":"${steps.wa.output.data.n}"}]},
					{"id":"b","steps":[{"id":"wb","type":"wait","event":{"type":"custom.both"}},{"id":"nb","type":"transform","expr":"${steps.wb.output.data.n}"}]}]}]`,
				func(t *testing.T, tenant *rig.Tenant, _ string) {
					t.Helper()
					send(t, tenant, "custom.both", "", map[string]any{"n": 3})
				}, `{"a":3,"b":3}`,
			},
			"large ones": {
				`[{"id":"w","type":"wait","event":{"type":"custom.large","filter":"${.data.text | length > 40000}"}},{"id":"o","type":"transform","expr":"${steps.w.output.data.text | length}"}]`,
				func(t *testing.T, tenant *rig.Tenant, _ string) {
					t.Helper()
					send(t, tenant, "custom.large", "", map[string]any{"text": fmt.Sprintf("%030000d", 0)})
					send(t, tenant, "custom.large", "", map[string]any{"text": fmt.Sprintf("%050000d", 0)})
				}, `50000`,
			},
			"until its time": {
				`[{"id":"w","type":"wait","event":{"type":"custom.never","timeout":"1s"},"catch":[{"errors":["WAIT_TIMEOUT"],"steps":[]}]},{"id":"o","type":"transform","expr":"${steps.w.error.code}"}]`,
				func(t *testing.T, tenant *rig.Tenant, _ string) {
					t.Helper()
					send(t, tenant, "custom.other", "", map[string]any{})
				}, `"WAIT_TIMEOUT"`,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tenant := newTenant(s)
				path := startMap(t, tenant, publish(t, tenant, "Waits", c.steps), map[string]any{"order": "o-1"})
				c.sent(t, tenant, path)
				e := endOf(t, tenant, path)
				require.Equal(t, "completed", e.Status, "%v", e.Error)
				require.JSONEq(t, c.want, string(e.Output))
			})
		}
	})
}

func TestEventOfAnotherTenantIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	one, other := newTenant(s), newTenant(s)
	path := startMap(t, one, publish(t, one, "Waits", `[{"id":"w","type":"wait","event":{"type":"custom.x"}},{"id":"o","type":"transform","expr":"${steps.w.output.data.of}"}]`), map[string]any{})
	waitsIn(t, one, path, "w")
	send(t, other, "custom.x", "", map[string]any{"of": "other"})
	send(t, one, "custom.x", "", map[string]any{"of": "one"})
	var out string
	require.NoError(t, json.Unmarshal(endOf(t, one, path).Output, &out))
	require.Equal(t, "one", out)
}

// waitEvent is what an event says about a wait.
type waitEvent struct {
	WaitingFor string `json:"waiting_for"`
	Step       string
}

// waitingEventsOf returns what events map.waiting say about an execution. Each fits the schema that the service
// publishes.
func waitingEventsOf(t *testing.T, tenant *rig.Tenant, path string) (waits []waitEvent) {
	t.Helper()
	const kind = "map.waiting"
	a := tenant.User.Do(http.MethodGet, "/v1/events?type="+kind+"&execution_id="+strings.TrimPrefix(path, "/v1/executions/"), nil)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &waits)
	var bodies []json.RawMessage
	a.Data(t, &bodies)
	if len(bodies) == 0 {
		return waits
	}
	schema := eventSchema(t, tenant, kind)
	for _, body := range bodies {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(value), "%s", body)
	}
	return waits
}

// eventSchema reads the schema of a type of events from the service.
func eventSchema(t *testing.T, tenant *rig.Tenant, kind string) *jsonschema.Schema {
	t.Helper()
	var types []struct {
		Type   string
		Schema json.RawMessage
	}
	tenant.User.Do(http.MethodGet, "/v1/webhooks/event-types", nil).Data(t, &types)
	for _, one := range types {
		if one.Type != kind {
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(one.Schema))
		require.NoError(t, err)
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		require.NoError(t, compiler.AddResource(kind, doc))
		schema, err := compiler.Compile(kind)
		require.NoError(t, err)
		return schema
	}
	require.Fail(t, "no such type of events", kind)
	return nil
}

func TestBeginningOfAWaitIsTold(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		trigger := publish(t, tenant, "Tells", `[
			{"id":"short","type":"wait","for":"1s"},
			{"id":"p","type":"parallel","branches":[
				{"id":"a","steps":[{"id":"first","type":"wait","event":{"type":"a"}}]},
				{"id":"b","steps":[{"id":"tick","type":"wait","for":"1s"},{"id":"second","type":"wait","event":{"type":"b"}}]}]},
			{"id":"long","type":"wait","for":"1h"}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		waitsIn(t, tenant, path, "first")
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "a", nil).Status)
		waitsIn(t, tenant, path, "second")
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "b", nil).Status)
		waitsIn(t, tenant, path, "long")
		require.Eventually(t, func() bool { return len(waitingEventsOf(t, tenant, path)) == 3 }, arriveLimit, 20*time.Millisecond)
		var told []string
		for _, e := range waitingEventsOf(t, tenant, path) {
			told = append(told, e.WaitingFor+" "+e.Step)
		}
		require.ElementsMatch(t, []string{"event first", "event second", "timer long"}, told)
	})
}

func TestRunsOfStepsAreOfTheCustomer(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := connected(t, s)
	id := ids(1)[0]
	trigger := publish(t, tenant, "For a customer", `[`+subMap(mapID(publish(t, tenant, "Inner", `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"`+id+`"}}]`)), "")+`]`)
	mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"customer_id": "cus-" + id}, "Prefer: wait=60"), http.StatusOK)
	require.Len(t, g.of(id), 1)
	var runs []struct{ Verb string }
	tenant.User.Do(http.MethodGet, "/v1/executions?customer_id=cus-"+id, nil).Data(t, &runs)
	require.Len(t, runs, 1)
	require.Equal(t, "gate:create_thing", runs[0].Verb)
}

func TestCancelOfAMapCancelsTheRunThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		a := tenant.User.Do(http.MethodPost, "/v1/policies", rig.Policy("hold", "require_approval", "gate:create_thing", nil))
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		id := ids(1)[0]
		path := startMap(t, tenant, publish(t, tenant, "Held", `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"`+id+`"}}]`), map[string]any{})
		require.Eventually(t, func() bool {
			var e mapExecution
			tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
			return e.Status == "pending_approval"
		}, arriveLimit, 20*time.Millisecond)
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		e := endOf(t, tenant, path)
		require.Equal(t, "cancelled", e.Status)
		require.Len(t, e.Steps, 1)
		require.NotNil(t, e.Steps[0].ExecutionID)
		require.Equal(t, "cancelled", executionOf(t, tenant.User, *e.Steps[0].ExecutionID).Status)
		var pending []struct{ ID string }
		tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &pending)
		require.Empty(t, pending)
		require.Empty(t, g.of(id))
	})
}
