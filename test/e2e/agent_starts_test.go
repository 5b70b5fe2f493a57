package e2e

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// starting are the answers of the scripted model to messages that start something.
var starting = []string{
	`{"purpose":"reply","turn":0,"contains":["Order the mango"],` + toolCalls(toolCall("1", "start_order_things", `{"id":7}`), toolCall("2", "start_order_things", `{"id":"mango"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Order the mango","INVALID_ARGS","\"output\":{\"made\":\"mango\""],"text":"The mango is ordered."}`,

	`{"purpose":"reply","contains":["Order the melon","has started has ended","\"made\":\"melon\""],"text":"The melon is ordered."}`,
	`{"purpose":"reply","contains":["Order the melon","pending_approval"],"text":"A person looks at the melon."}`,
	`{"purpose":"reply","contains":["Order the melon"],` + toolCalls(toolCall("1", "start_order_things", `{"id":"melon","ask":true}`)) + `}`,

	`{"purpose":"reply","contains":["Await the grape","has started has ended","\"output\":\"ripe\""],"text":"The grape is ripe."}`,
	`{"purpose":"reply","contains":["Await the grape","And the grape"],"text":"Not yet."}`,
	`{"purpose":"reply","contains":["Await the grape","\"status\":\"running\""],"text":"I tell you when the grape is ripe."}`,
	`{"purpose":"reply","contains":["Await the grape"],` + toolCalls(toolCall("1", "start_await_the_fruit", `{}`)) + `}`,

	`{"purpose":"reply","turn":0,"contains":["Ask about the olive"],` + toolCalls(toolCall("1", "ask_maker", `{"message":"Make the olive"}`), toolCall("2", "ask_maker", `{}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Ask about the olive","The olive is made.","INVALID_ARGS"],"text":"They made the olive."}`,
	`{"purpose":"reply","turn":0,"contains":["Make the olive"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"olive"}`)) + `,"usage":{"input":70,"cached":0,"output":30}}`,
	`{"purpose":"reply","turn":1,"contains":["Make the olive"],"text":"The olive is made.","usage":{"input":70,"cached":0,"output":30}}`,

	`{"purpose":"reply","contains":["Ask about the quince","has started has ended","The quince is gone."],"text":"They removed the quince."}`,
	`{"purpose":"reply","contains":["Ask about the quince","pending_approval","A person looks at the quince."],"text":"They have to ask."}`,
	`{"purpose":"reply","contains":["Ask about the quince"],` + toolCalls(toolCall("1", "ask_maker", `{"message":"Remove the quince"}`)) + `}`,
	`{"purpose":"reply","contains":["Remove the quince","People have decided"],"text":"The quince is gone."}`,
	`{"purpose":"reply","contains":["Remove the quince","pending_approval"],"text":"A person looks at the quince."}`,
	`{"purpose":"reply","contains":["Remove the quince"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"quince"}`)) + `}`,

	`{"purpose":"reply","contains":["Ask for too much","token_budget"],"text":"It took too much."}`,
	`{"purpose":"reply","contains":["Ask for too much"],` + toolCalls(toolCall("1", "ask_maker", `{"message":"Use a lot"}`)) + `,"usage":{"input":5,"cached":0,"output":5}}`,
	`{"purpose":"reply","contains":["Use a lot"],` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"lot"}`)) + `,"usage":{"input":500,"cached":0,"output":500}}`,

	`{"purpose":"reply","turn":0,"contains":["Ask and think"],` + toolCalls(toolCall("1", "ask_maker", `{"message":"think very long"}`)) + `}`,
	`{"purpose":"reply","contains":["think very long"],"text":"late","delay_ms":50000}`,

	`{"purpose":"reply","turn":1,"contains":["Down"],"text":"Up."}`,
	`{"purpose":"reply","turn":0,"contains":["Down"],` + toolCalls(toolCall("1", "ask_helper", `{"message":"Down"}`)) + `}`,
}

// The Maps of the tests.
const (
	orderMap = `{"schema_version":"1","name":"Order things","when":"The customer wants to order something","keywords":["order"],
		"trigger_schema":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"ask":{"type":"boolean"}},"additionalProperties":false},
		"steps":[{"id":"people","type":"approval","title":"May this be ordered?","self_approval":true,"skip_if":"${trigger_data.ask != true}"},
			{"id":"make","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}],
		"output":{"made":"${steps.make.output.id}","session":"${context.session_id}","customer":"${context.customer_id}"}}`
	awaitMap = `{"schema_version":"1","name":"Await the fruit","steps":[{"id":"ripens","type":"wait","event":{"type":"ripe"}}],"output":"ripe"}`
)

// starter makes an agent that may start the Maps.
func starter(t *testing.T, tenant *rig.Tenant, definitions ...string) (message string, key *rig.Client, maps []string) {
	t.Helper()
	for _, definition := range definitions {
		a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(definition))
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		maps = append(maps, path.Base(a.Header.Get("Location")))
	}
	message, key = agentOf(t, tenant, map[string]any{"maps": maps})
	return message, key, maps
}

// ofMap is what a message shows of a Map that it has started.
type ofMap struct {
	MapExecutionID string `json:"map_execution_id"`
	ModelCalls     []struct {
		Calls []struct {
			Kind        string
			MapID       string `json:"map_id"`
			ExecutionID string `json:"execution_id"`
		}
	} `json:"model_calls"`
}

// A message starts a Map by a tool: its arguments have to fit, its calls are runs of the Map, and it
// has session and customer of the message.
func TestMessageStartsAMap(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		message, key, maps := starter(t, tenant, orderMap)
		body := write("Order the mango", "s1")
		body["customer_id"] = "ann"
		a := key.Do(http.MethodPost, message, body)
		said := saidOf(t, a, http.StatusOK)
		require.Equal(t, "The mango is ordered.", *said.Message)
		require.Equal(t, "completed", said.Status)
		require.Equal(t, 1, said.ActionsExecuted)
		require.Len(t, g.of("mango"), 1)

		var shown ofMap
		tenant.User.Do(http.MethodGet, "/v1/executions/"+said.ExecutionID, nil).Data(t, &shown)
		calls := shown.ModelCalls[0].Calls
		require.Len(t, calls, 1, "what is refused starts nothing")
		require.Equal(t, "map", calls[0].Kind)
		require.Equal(t, maps[0], calls[0].MapID)
		require.Equal(t, shown.MapExecutionID, calls[0].ExecutionID)
		require.Contains(t, string(a.Body), `"map_execution_id":"`+shown.MapExecutionID+`"`)

		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+shown.MapExecutionID, nil), http.StatusOK)
		var out struct{ Session, Customer string }
		require.NoError(t, json.Unmarshal(e.Output, &out))
		require.Equal(t, "s1", out.Session)
		require.NotEmpty(t, out.Customer)
		require.Equal(t, http.StatusOK, key.Do(http.MethodGet, "/v1/executions/"+shown.MapExecutionID, nil).Status, "it belongs to the key of the message")
	})
}

// settled waits until an execution has the status.
func settled(t *testing.T, tenant *rig.Tenant, execution, status string) (e said) {
	t.Helper()
	require.Eventually(t, func() bool {
		e = saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+execution, nil), http.StatusOK)
		return e.Status == status
	}, time.Minute, 50*time.Millisecond)
	return e
}

// A Map that waits for people leaves the session free. Its end is another reply.
func TestMapOfAMessageWaitsForPeople(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		message, key, _ := starter(t, tenant, orderMap)
		waits := saidOf(t, key.Do(http.MethodPost, message, write("Order the melon", "s1")), http.StatusOK)
		require.Equal(t, "pending_approval", waits.Status)
		require.Equal(t, "A person looks at the melon.", *waits.Message)
		require.NotNil(t, waits.ApprovalID)
		require.Empty(t, g.of("melon"))
		require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
		ended := settled(t, tenant, waits.ExecutionID, "completed")
		require.Equal(t, "The melon is ordered.", *ended.Reply)
		require.Equal(t, 1, ended.ActionsExecuted)
		require.Len(t, g.of("melon"), 1)
	})
}

// A Map that lasts runs in the background: the customer is told so, and of its end.
func TestMapOfAMessageRunsInTheBackground(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	_, tenant := connected(t, s)
	message, key, _ := starter(t, tenant, awaitMap, orderMap)
	runs := saidOf(t, key.Do(http.MethodPost, message, write("Await the grape", "s1")), http.StatusOK)
	require.Equal(t, "running", runs.Status)
	require.Equal(t, "I tell you when the grape is ripe.", *runs.Message)
	meanwhile := saidOf(t, key.Do(http.MethodPost, message, write("And the grape?", "s1")), http.StatusOK)
	require.Equal(t, "Not yet.", *meanwhile.Message)

	var shown ofMap
	tenant.User.Do(http.MethodGet, "/v1/executions/"+runs.ExecutionID, nil).Data(t, &shown)
	a := tenant.User.Do(http.MethodPost, "/v1/executions/"+shown.MapExecutionID+"/signal", map[string]any{"name": "ripe"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Equal(t, "The grape is ripe.", *settled(t, tenant, runs.ExecutionID, "completed").Reply)

	// Who cancels the message cancels what it has started.
	runs = saidOf(t, key.Do(http.MethodPost, message, write("Await the grape", "s2")), http.StatusOK)
	tenant.User.Do(http.MethodGet, "/v1/executions/"+runs.ExecutionID, nil).Data(t, &shown)
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+runs.ExecutionID+"/cancel", nil).Status)
	settled(t, tenant, runs.ExecutionID, "cancelled")
	require.Equal(t, "cancelled", mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+shown.MapExecutionID, nil), http.StatusOK).Status)
}

// asker makes an agent that may ask another one, which may call the verbs of gate, and nothing else.
func asker(t *testing.T, tenant *rig.Tenant, limits map[string]any) (message string, key *rig.Client, asked string) {
	t.Helper()
	maker, _ := agentOf(t, tenant, map[string]any{"name": "Maker"})
	asked = path.Base(path.Dir(maker))
	more := map[string]any{"tools": map[string]any{"allow": []string{"agent:" + asked}}}
	if limits != nil {
		more["limits"] = limits
	}
	message, key = agentOf(t, tenant, more)
	return message, key, asked
}

// An agent that asks another one reaches what that one may do, and nothing else. What is used counts for both.
func TestAgentAsksAnotherAgent(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		message, key, asked := asker(t, tenant, nil)
		body := write("Ask about the olive", "s1")
		body["customer_id"] = "ann"
		said := saidOf(t, key.Do(http.MethodPost, message, body), http.StatusOK)
		require.Equal(t, "They made the olive.", *said.Message)
		require.Equal(t, 1, said.ActionsExecuted)
		require.Len(t, g.of("olive"), 1)

		var shown struct {
			ofMap
			AgentID    string `json:"agent_id"`
			CustomerID string `json:"customer_id"`
			Parent     string `json:"parent_execution_id"`
			TokensUsed int64  `json:"tokens_used"`
			Message    string
		}
		tenant.User.Do(http.MethodGet, "/v1/executions/"+said.ExecutionID, nil).Data(t, &shown)
		calls, customer, tokens := shown.ModelCalls[0].Calls, shown.CustomerID, shown.TokensUsed
		require.Len(t, calls, 1)
		require.Equal(t, "message", calls[0].Kind)
		tenant.User.Do(http.MethodGet, "/v1/executions/"+calls[0].ExecutionID, nil).Data(t, &shown)
		require.Equal(t, []string{asked, customer, said.ExecutionID, "Make the olive"}, []string{shown.AgentID, shown.CustomerID, shown.Parent, shown.Message})
		require.EqualValues(t, 200, shown.TokensUsed)
		require.Greater(t, tokens, int64(200))
	})
}

// A call of the agent that was asked waits for people. Both agents reply again when they have decided.
func TestAskedAgentWaitsForPeople(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		held(t, tenant, "gate:delete_thing")
		message, key, _ := asker(t, tenant, nil)
		waits := saidOf(t, key.Do(http.MethodPost, message, write("Ask about the quince", "s1")), http.StatusOK)
		require.Equal(t, "pending_approval", waits.Status)
		require.Equal(t, "They have to ask.", *waits.Message)
		require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
		ended := settled(t, tenant, waits.ExecutionID, "completed")
		require.Equal(t, "They removed the quince.", *ended.Reply)
		require.Equal(t, 1, ended.ActionsExecuted)
		require.Len(t, g.of("quince"), 1)
	})
}

// The limits of an agent hold for those that it asks, and who cancels it cancels them.
func TestAskedAgentIsBoundByTheOneThatAsks(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	message, key, asked := asker(t, tenant, map[string]any{"tokens": 1500})
	bound := saidOf(t, key.Do(http.MethodPost, message, write("Ask for too much", "")), http.StatusOK)
	require.Equal(t, "token_budget", *bound.Metadata.StopReason)
	require.Less(t, bound.TokensUsed, int64(3100), "the one that is asked stops too")

	slow := saidOf(t, key.Do(http.MethodPost, message, write("Ask and think", ""), "Prefer: wait=0"), http.StatusAccepted)
	var started []said
	require.Eventually(t, func() bool {
		tenant.User.Do(http.MethodGet, "/v1/executions?kind=message&status=running&agent_id="+asked, nil).Data(t, &started)
		return len(started) == 1
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+slow.ExecutionID+"/cancel", nil).Status)
	settled(t, tenant, slow.ExecutionID, "cancelled")
	settled(t, tenant, started[0].ExecutionID, "cancelled")
}

// toldCalls returns what a stream tells of the calls, each with its place, and the id of what it has
// started in the place of that.
func toldCalls(t *testing.T, all []message) (told []string, started string) {
	t.Helper()
	for _, m := range all {
		var body struct {
			CallID      string `json:"call_id"`
			Verb        string
			MapID       string `json:"map_id"`
			AgentID     string `json:"agent_id"`
			Status      string
			ExecutionID string `json:"execution_id"`
		}
		if !strings.HasPrefix(m.event, "tool.") {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(m.data), &body))
		line := strings.Join([]string{body.CallID, m.event, body.Verb + body.MapID + body.AgentID, body.Status}, " ")
		if body.ExecutionID != "" {
			line, started = line+" started", body.ExecutionID
		}
		told = append(told, line)
	}
	return told, started
}

// Calls that start Maps, and that ask agents, are streamed as calls of verbs are.
func TestCallsThatStartSomethingAreStreamed(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		_, tenant := connected(t, s)
		path, key, maps := starter(t, tenant, orderMap)
		all := readReply(t, key, path, write("Order the mango", "")).rest()
		told, started := toldCalls(t, all)
		require.ElementsMatch(t, []string{
			"answers/0/calls/0 tool.started " + maps[0] + " ", "answers/0/calls/0 tool.finished " + maps[0] + " failed",
			"answers/0/calls/1 tool.started " + maps[0] + " ", "answers/0/calls/1 tool.finished " + maps[0] + " completed started",
		}, told)
		require.Equal(t, *completed(t, all).Metadata.MapExecutionID, started)

		waits := readReply(t, key, path, write("Order the melon", "")).rest()
		end := completed(t, waits)
		require.Equal(t, []string{"tool.started", "approval.requested", "message.delta", "message.completed"}, namesOf(waits))
		require.JSONEq(t, `{"approval_id":"`+*end.ApprovalID+`"}`, waits[1].data)

		path, key, asked := asker(t, tenant, nil)
		all = readReply(t, key, path, write("Ask about the olive", "")).rest()
		told, started = toldCalls(t, all)
		require.ElementsMatch(t, []string{
			"answers/0/calls/0 tool.started " + asked + " ", "answers/0/calls/0 tool.finished " + asked + " completed started",
			"answers/0/calls/1 tool.started " + asked + " ", "answers/0/calls/1 tool.finished " + asked + " failed",
		}, told)
		require.Equal(t, "They made the olive.", *completed(t, all).Message)
		require.Equal(t, "completed", executionOf(t, tenant.User, started).Status)
	})
}

// Agents do not lead back to themselves, and at most three call each other in a row.
func TestAgentsAskEachOtherWithinBounds(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	calling := func(ids ...string) map[string]any {
		allow := []string{}
		for _, id := range ids {
			allow = append(allow, "agent:"+id)
		}
		return map[string]any{"tools": map[string]any{"allow": allow}}
	}
	build := func(ids ...string) (id, message string, key *rig.Client) {
		message, key = agentOf(t, tenant, calling(ids...))
		return path.Base(path.Dir(message)), message, key
	}
	refused := func(a rig.Answer, rule string) {
		t.Helper()
		require.Equal(t, http.StatusBadRequest, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), rule)
	}
	change := func(id string, ids ...string) rig.Answer {
		return tenant.User.Do(http.MethodPatch, "/v1/agents/"+id+"?publish=true", calling(ids...))
	}
	c, _, _ := build()
	b, _, _ := build(c)
	a, message, key := build(b)
	refused(change(c, a), "agent_cycle")
	refused(change(c, c), "agent_cycle")
	refused(change(c, "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"), "unknown_agent")
	refused(tenant.User.Do(http.MethodPost, "/v1/agents", map[string]any{"name": "Too deep", "tools": calling(a)["tools"]}), "agent_depth")

	said := saidOf(t, key.Do(http.MethodPost, message, write("Down", "")), http.StatusOK)
	require.Equal(t, "Up.", *said.Message)
	var list []struct{ Status string }
	tenant.User.Do(http.MethodGet, "/v1/executions?kind=message", nil).Data(t, &list)
	require.Len(t, list, 3)

	// What was saved before has no cycle then. A deeper row is refused when it runs.
	d, _, _ := build()
	require.Equal(t, http.StatusOK, change(c, d).Status)
	saidOf(t, key.Do(http.MethodPost, message, write("Down", "")), http.StatusOK)
	tenant.User.Do(http.MethodGet, "/v1/executions?kind=message&agent_id="+d, nil).Data(t, &list)
	require.Empty(t, list)
}
