package e2e

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// stepAgents are the answers of the scripted model to stored agents that do steps of Maps.
var stepAgents = []string{
	fixture(0, "Bake the bread", toolCalls(toolCall("1", "gate:create_thing", `{"id":"bread"}`), toolCall("2", "gate:delete_thing", `{"id":"bread"}`))),
	`{"purpose":"agent","turn":1,"contains":["Bake the bread","VERB_NOT_FOUND"],"text":"It is baked.","usage":{"input":400,"cached":0,"output":100}}`,
	`{"purpose":"agent","contains":["Use too much"],"usage":{"input":400,"cached":0,"output":200},` + toolCalls(toolCall("1", "gate:get_thing", `{"id":"much"}`)) + `}`,
	`{"purpose":"agent","turn":1,"contains":["Ask too often","NOT_MADE"],"text":"I may not."}`,
	fixture(0, "Fill the shelf", toolCalls(
		toolCall("1", "shelf:set_thing", `{"id":"a","value":"2"}`), toolCall("2", "shelf:get_thing", `{"id":"a"}`), toolCall("3", "shelf:set_thing", `{"id":"b","value":"3"}`))),
	`{"purpose":"agent","turn":1,"contains":["Fill the shelf","intercepted"],` + toolCalls(toolCall("4", "shelf:set_thing", `{"id":"a","value":"4"}`)) + `}`,
	`{"purpose":"agent","turn":2,"contains":["Fill the shelf"],"text":"It is full."}`,
	fixture(0, "Weigh the plum", toolCalls(toolCall("1", "gate:get_thing", `{"id":"plum"}`))),
	fixture(1, "Weigh the plum", toolCalls(toolCall("2", "gate:create_thing", `{"id":"plum"}`))),
	`{"purpose":"agent","turn":2,"contains":["Weigh the plum"],"text":"It is weighed."}`,
	fixture(0, "Mark the quince", toolCalls(toolCall("1", "gate:create_thing", `{"id":"quince"}`))),
	`{"purpose":"agent","turn":1,"contains":["Mark the quince"],"text":"It is marked."}`,
	fixture(0, "Ask too often", toolCalls(toolCall("1", "gate:get_thing", `{"id":"one"}`), toolCall("2", "gate:get_thing", `{"id":"two"}`))),
}

// agentIDOf makes an agent and returns its id.
func agentIDOf(t *testing.T, tenant *rig.Tenant, more map[string]any) string {
	t.Helper()
	message, _ := agentOf(t, tenant, more)
	return path.Base(path.Dir(message))
}

// A stored agent does a step with its model and within its tools. Policies that name it count.
func TestStoredAgentDoesAStep(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		id := agentIDOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"gate:*"}, "deny": []string{"gate:delete_*"}}})
		steps := `[{"id":"bake","type":"agent","agent_id":"` + id + `","goal":"Bake the bread"}]`
		e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, publish(t, tenant, "Bakes", steps), map[string]any{}, "Prefer: wait=60"), http.StatusOK)
		require.JSONEq(t, `"It is baked."`, string(e.Output))
		require.Len(t, g.of("bread"), 1, "what its tools deny is not called")
		require.Equal(t, 1, e.ActionsExecuted)

		a := tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
			"name": "Not this one", "verbMatchers": []any{map[string]any{"type": "verb", "value": "gate:create_thing"}},
			"conditions": []any{map[string]any{"field": "agent_id", "operator": "equals", "value": id}}, "action": map[string]any{"type": "block"},
		})
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, publish(t, tenant, "Bakes again", steps), map[string]any{}, "Prefer: wait=60"), http.StatusOK)
		require.Len(t, g.of("bread"), 1)
	})
}

// Where no session is, the execution is what can be tainted: by an answer of a provider that a model of it
// has read, or may have. From then on its calls are, those of its later steps and other Maps too.
func TestCallsOfAMapAreTaintedOnceItsModelHasReadAnAnswer(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		const (
			looks  = `{"id":"looks","type":"verb","verb":"gate:get_thing","args":{"id":"seen"}}`
			makes  = `{"id":"makes","type":"verb","verb":"gate:create_thing","args":{"id":"made"}}`
			weighs = `{"id":"weighs","type":"agent","goal":"Weigh the plum","tools":["gate:*"]}`
			marks  = `{"id":"marks","type":"agent","goal":"Mark the quince","tools":["gate:*"]}`
		)
		for name, c := range map[string]struct {
			steps  string
			inside string // the steps of the Map that the step "in" starts
			id     string // of the thing that is made
			sent   int
			fails  bool
		}{
			"steps without a model":                   {steps: looks + "," + makes, id: "made", sent: 1},
			"a model that has read nothing":           {steps: marks, id: "quince", sent: 1},
			"the answer to an earlier call":           {steps: weighs, id: "plum", sent: 1}, // the look
			"a step before a model":                   {steps: looks + "," + marks, id: "quince"},
			"a step after a model that has read":      {steps: weighs + "," + makes, id: "made", fails: true},
			"a Map after a model that has read":       {steps: weighs + `,{"id":"in","type":"map","map_id":"INSIDE"}`, inside: makes, id: "made", fails: true},
			"a step after a Map whose model has read": {steps: `{"id":"in","type":"map","map_id":"INSIDE"},` + makes, inside: weighs, id: "made", fails: true},
			"a model of a Map within another":         {steps: `{"id":"in","type":"map","map_id":"INSIDE"}`, inside: marks, id: "quince", sent: 1},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g, tenant := connected(t, s)
				tenant.User.NewPolicy(t, map[string]any{
					"name": "Tainted", "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
					"conditions": []any{map[string]any{"field": "session.tainted", "operator": "equals", "value": true}},
				})
				if c.inside != "" {
					inside := path.Base(path.Dir(publish(t, tenant, "Inside", "["+c.inside+"]")))
					c.steps = strings.ReplaceAll(c.steps, "INSIDE", inside)
				}
				a := tenant.Runtime.Do(http.MethodPost, publish(t, tenant, "Reads and makes", "["+c.steps+"]"), map[string]any{}, "Prefer: wait=60")
				if c.fails {
					requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
					require.Contains(t, string(a.Body), "GOVERNANCE_BLOCKED")
				} else {
					require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
				}
				require.Len(t, g.of(c.id), c.sent)
			})
		}
	})
}

// Policies see the name, the version and the mode of the stored agent that does a step.
func TestPoliciesJudgeStepsByTheirAgent(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, map[string]any{
		"name": "Not the second", "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
		"conditions": []any{
			map[string]any{"field": "agent.name", "operator": "equals", "value": "Marker"},
			map[string]any{"field": "agent.version", "operator": "equals", "value": 2},
			map[string]any{"field": "agent.executionMode", "operator": "equals", "value": "conversational"},
		},
	})
	id := agentIDOf(t, tenant, map[string]any{"name": "Marker"})
	trigger := publish(t, tenant, "Marks", `[{"id":"marks","type":"agent","agent_id":"`+id+`","goal":"Mark the quince"}]`)
	for range 2 {
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60")
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		require.Len(t, g.of("quince"), 1)
		a = tenant.User.Do(http.MethodPatch, "/v1/agents/"+id+"?publish=true", map[string]any{"instructions": "Help again."})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}
}

// The limits of a stored agent bound a step, and a Map names only agents that exist.
func TestStoredAgentOfAStepIsBound(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := connected(t, s)
	run := func(id, goal string) rig.Answer {
		steps := `[{"id":"work","type":"agent","agent_id":"` + id + `","goal":"` + goal + `"}]`
		return tenant.Runtime.Do(http.MethodPost, publish(t, tenant, goal, steps), map[string]any{}, "Prefer: wait=60")
	}
	failed := func(a rig.Answer, code string) {
		t.Helper()
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), `"rule":"`+code+`"`)
	}
	failed(run(agentIDOf(t, tenant, map[string]any{"limits": map[string]any{"tokens": 1000}}), "Use too much"), "BUDGET_EXCEEDED")
	require.Len(t, g.of("much"), 2)
	require.Equal(t, http.StatusOK, run(agentIDOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"gate:*"}, "max_per_turn": 1}}), "Ask too often").Status)
	require.Empty(t, g.of("two"))
	failed(run(agentIDOf(t, tenant, map[string]any{"limits": map[string]any{"max_turns": 2}}), "Use too much"), "MODEL_ERROR")

	paused := agentIDOf(t, tenant, nil)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPatch, "/v1/agents/"+paused, map[string]any{"status": "paused"}).Status)
	failed(run(paused, "Bake the bread"), "CONFLICT")
	failed(run(agentIDOf(t, tenant, map[string]any{"models": map[string]any{"worker": map[string]any{"provider": "nobody", "model": "m"}}}), "Bake the bread"), "MODEL_NOT_CONNECTED")

	gone := agentIDOf(t, tenant, nil)
	trigger := publish(t, tenant, "Gone", `[{"id":"work","type":"agent","agent_id":"`+gone+`","goal":"Bake the bread"}]`)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/agents/"+gone, nil).Status)
	failed(tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), "AGENT_NOT_FOUND")
	a := tenant.User.Do(http.MethodPost, "/v1/maps", json.RawMessage(`{"schema_version":"1","name":"Unknown","steps":[
		{"id":"work","type":"agent","agent_id":"`+gone+`","goal":"x"}]}`))
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
	require.Contains(t, string(a.Body), `"path":"/steps/0/agent_id","rule":"unknown_agent"`)
}
