package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"agentruntime/test/rig"
)

// listOf returns the texts as a list in JSON.
func listOf(texts []string) string {
	list, err := json.Marshal(append([]string{}, texts...))
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return string(list)
}

// plan is an answer of a planner to a goal whose request has all the texts.
func plan(contains []string, status, next string, claims ...string) string {
	if next == "" {
		next = "null"
	}
	texts := listOf(contains)
	return fmt.Sprintf(`{"purpose":"plan","contains":%s,"json":{"status":%q,"remaining_plan":["go on"],"next":%s,"criteria":[%s],"reason":%q}}`,
		texts, status, next, strings.Join(claims, ","), "So says the planner: "+status+".")
}

func next(verb, args string) string {
	return fmt.Sprintf(`{"verb":%q,"args":%s,"why":"it helps","expect":"a thing"}`, verb, args)
}

func claim(id string, evidence ...string) string {
	raw := listOf(evidence)
	return fmt.Sprintf(`{"id":%q,"met":true,"evidence":%s}`, id, raw)
}

// plans are the answers of the scripted model to goals.
var plans = slices.Concat([]string{
	plan([]string{"Stop me"}, "blocked", ""),
	plan([]string{"Make the medlar", `"f2"`}, "done", "", claim("seen", "f1"), claim("made", "f2")),
	plan([]string{"Make the medlar", `"f1"`}, "act", next("gate:create_thing", `{"id":"medlar"}`)),
	plan([]string{"Make the medlar"}, "act", next("gate:get_thing", `{"id":"medlar"}`)),

	plan([]string{"Delete the quince", `"f1"`}, "done", "", claim("made", "f1")),
	plan([]string{"Delete the quince"}, "act", next("gate:delete_thing", `{"id":"quince"}`)),

	// A planner that claims what is not so.
	plan([]string{"Claim without facts"}, "done", "", claim("made")),
	plan([]string{"Claim invented facts"}, "done", "", claim("made", "f7", "f8")),
	plan([]string{"Claim against the check", `"f1"`}, "done", "", claim("made", "f1")),
	plan([]string{"Claim against the check"}, "act", next("gate:get_thing", `{"id":"sloe"}`)),
	plan([]string{"Claim a failed call", `"f1"`}, "done", "", claim("made", "f1")),
	plan([]string{"Claim a failed call"}, "act", next("gate:unknown", `{}`)),

	// One that never comes to an end, or does what it may not.
	plan([]string{"Call the same"}, "act", next("gate:unknown", `{"id":"same"}`)),
	plan([]string{"Two steps", `name="steps_left">0<`}, "act", next("gate:create_thing", `{"id":"rowan"}`), claim("made", "f1")),
	plan([]string{"Two steps", `name="steps_left">1<`}, "act", next("gate:create_thing", `{"id":"rowan","mode":"second"}`)),
	plan([]string{"Two steps"}, "act", next("gate:create_thing", `{"id":"rowan"}`)),
	plan([]string{"Trust another agent", `"f1"`}, "done", "", claim("said", "f1"), claim("executed", "f1")),
	plan([]string{"Trust another agent"}, "act", next("ask_maker", `{"message":"Say that it is done"}`)),
	`{"purpose":"reply","contains":["Say that it is done"],"text":"It is done."}`,
	plan([]string{"Two calls", `"f1"`}, "act", next("gate:create_thing", `{"id":"service-tree","mode":"second"}`)),
	plan([]string{"Two calls"}, "act", next("gate:create_thing", `{"id":"service-tree"}`)),
	`{"purpose":"plan","contains":["Twice unusable"],"text":"I think about it."}`,
	`{"purpose":"plan","contains":["Once unusable","cannot be used"],"json":{"status":"blocked","remaining_plan":[],"next":null,"criteria":[],"reason":"It is better now."}}`,
	`{"purpose":"plan","contains":["Once unusable"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"smuggled"}`)) + `}`,
	`{"purpose":"plan","contains":["Break the planner"],"error":"the model is away"}`,
	`{"purpose":"plan","contains":["Plan for long"],"delay_ms":3000,"json":{"status":"blocked","remaining_plan":[],"next":null,"criteria":[],"reason":"It took long."}}`,
}, wrongCalls(), longPlan())

// wrongCalls are a planner's calls that cannot be made, each another one.
func wrongCalls() (list []string) {
	calls := []string{
		next("other:create_thing", `{"id":"haw"}`), next("gate:delete_thing", `{"id":"haw"}`), next("gate:create_thing", `{"id":"haw","colour":"red"}`),
		next("gate:create_thing", `{"id":7}`), next("gate:create_thing", `{"amount":"many"}`),
	}
	for i, call := range slices.Backward(calls) {
		contains := []string{"Call what is wrong"}
		if i > 0 {
			contains = append(contains, fmt.Sprintf(`"f%d"`, i))
		}
		list = append(list, plan(contains, "act", call))
	}
	return list
}

// pursued is the answer to a goal, and its execution.
type pursued struct {
	ExecutionID string `json:"execution_id"`
	Kind        string
	Status      string
	StopReason  *string `json:"stop_reason"`
	Criteria    []struct {
		ID       string
		Met      bool
		Evidence []string
	}
	ActionsExecuted  int    `json:"actions_executed"`
	GovernanceStatus string `json:"governance_status"`
	TokensUsed       int64  `json:"tokens_used"`
	Reason, Reply    *string
	ApprovalID       *string `json:"approval_id"`
	FenceStatus      string  `json:"fence_status"`
	Goal             *string
	Plan             []string
	Facts            []struct {
		ID, Verb, Status string
		ExecutionID      *string `json:"execution_id"`
		ErrorCode        *string `json:"error_code"`
	}
	ModelCalls []struct{ Purpose string } `json:"model_calls"`
}

func pursuedOf(t *testing.T, a rig.Answer, status int) (p pursued) {
	t.Helper()
	require.Equal(t, status, a.Status, "%s", a.Body)
	a.Data(t, &p)
	return p
}

func pursuedUntil(t *testing.T, tenant *rig.Tenant, id, status string) (p pursued) {
	t.Helper()
	rig.Until(t, time.Minute, id+" is "+status, func() bool {
		p = pursuedOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil), http.StatusOK)
		return p.Status == status
	})
	return p
}

// made is the criterion of most goals: something was written.
const madeCheck = `${ any(.facts[]; .status == "executed" and .verb != "gate:get_thing") }`

func criterion(id, check string) map[string]any {
	c := map[string]any{"id": id, "description": "The thing is " + id}
	if check != "" {
		c["check"] = check
	}
	return c
}

func goalOf(text string, criteria ...map[string]any) map[string]any {
	if criteria == nil {
		criteria = []map[string]any{criterion("made", madeCheck)}
	}
	return map[string]any{"goal": text, "completion_criteria": criteria}
}

// goalAgent makes an agent of the scripted planner in the mode goal, and a key for it.
func goalAgent(t *testing.T, tenant *rig.Tenant, more map[string]any) (message, goals string, key *rig.Client) {
	t.Helper()
	body := map[string]any{"executionMode": "goal"}
	maps.Copy(body, more)
	message, key = agentOf(t, tenant, body)
	return message, strings.TrimSuffix(message, "message") + "goals", key
}

// A goal is reached by governed calls whose results are the evidence. It is an execution of its own kind,
// and a repeat under its key makes no further call.
func TestGoalIsReachedByEvidence(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		_, goals, key := goalAgent(t, tenant, nil)
		body := goalOf("Make the medlar", criterion("seen", ""), criterion("made", `${ any(.facts[]; .verb == "gate:create_thing" and .args.id == "medlar" and .result.id == "medlar") }`))
		p := pursuedOf(t, key.Do(http.MethodPost, goals, body, "Idempotency-Key: k"), http.StatusOK)
		require.Equal(t, "completed", p.Status)
		require.Equal(t, "criteria_met", *p.StopReason)
		require.Equal(t, 2, p.ActionsExecuted)
		require.Equal(t, "So says the planner: done.", *p.Reason)
		require.Len(t, p.Criteria, 2)
		require.True(t, p.Criteria[0].Met && p.Criteria[1].Met)
		require.Equal(t, []string{"f2"}, p.Criteria[1].Evidence)
		require.Len(t, g.of("medlar"), 2)

		again := pursuedOf(t, key.Do(http.MethodPost, goals, body, "Idempotency-Key: k"), http.StatusOK)
		require.Equal(t, "cached", again.FenceStatus)
		require.Len(t, g.of("medlar"), 2)
		body["limits"] = map[string]any{"goal_steps": 3}
		requireCode(t, key.Do(http.MethodPost, goals, body, "Idempotency-Key: k"), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")

		e := pursuedOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+p.ExecutionID, nil), http.StatusOK)
		require.Equal(t, "goal", e.Kind)
		require.Equal(t, "Make the medlar", *e.Goal)
		require.Len(t, e.Facts, 2)
		require.Equal(t, "gate:create_thing", e.Facts[1].Verb)
		run := tenant.User.Do(http.MethodGet, "/v1/executions/"+*e.Facts[1].ExecutionID, nil)
		require.Contains(t, string(run.Body), `"medlar"`)
		require.Len(t, e.ModelCalls, 3)
		require.Equal(t, "plan", e.ModelCalls[0].Purpose)
		for kind, n := range map[string]int{"goal": 1, "message": 0} {
			var list []pursued
			tenant.User.Do(http.MethodGet, "/v1/executions?kind="+kind, nil).Data(t, &list)
			require.Len(t, list, n, kind)
		}
		rig.Until(t, time.Minute, "the event is there", func() bool {
			var events []struct{ Criteria []struct{ Met bool } }
			tenant.User.Do(http.MethodGet, "/v1/events?type=goal.completed", nil).Data(t, &events)
			return len(events) == 1 && len(events[0].Criteria) == 2 && events[0].Criteria[0].Met
		})
	})
}

// Each reason for which a goal is not reached. None is a success, and what the planner claims counts for
// nothing.
func TestGoalStopsWithoutSuccess(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	_, goals, key := goalAgent(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"gate:get_thing", "gate:create_thing"}}})
	for text, want := range map[string]struct {
		stop   string
		limits map[string]any
		check  string
		sent   int
	}{
		"Claim without facts":     {"no_progress", nil, "", 0},
		"Claim invented facts":    {"no_progress", nil, "", 0},
		"Claim against the check": {"no_progress", nil, madeCheck, 1},
		"Claim a failed call":     {"no_progress", nil, "", 0},
		"Stop me":                 {"planner_blocked", nil, "", 0},
		"Call the same":           {"no_progress", nil, "", 0},
		"Call what is wrong":      {"error_budget", nil, "", 0},
		"Two steps":               {"step_cap", map[string]any{"goal_steps": 2}, madeCheck, 2},
		"Make the medlar":         {"token_budget", map[string]any{"tokens": 1}, madeCheck, 1},
		"Once unusable":           {"planner_blocked", nil, "", 0},
		"Plan for long":           {"wall_clock", map[string]any{"wall_clock": "1s"}, "", 0},
	} {
		body := goalOf(text, criterion("made", want.check))
		if want.limits != nil {
			body["limits"] = want.limits
		}
		if text == "Make the medlar" {
			body["completion_criteria"] = []any{criterion("seen", ""), criterion("made", madeCheck)}
		}
		p := pursuedOf(t, key.Do(http.MethodPost, goals, body), http.StatusOK)
		require.Equal(t, "failed", p.Status, text)
		require.Equal(t, want.stop, *p.StopReason, text)
		require.Equal(t, want.sent, p.ActionsExecuted, text)
		require.NotEmpty(t, p.Criteria, text)
		for _, c := range p.Criteria {
			require.False(t, c.Met && text != "Two steps", "%s %s", text, c.ID)
		}
	}
	require.Empty(t, g.of("haw"))
	require.Empty(t, g.of("smuggled"))
	require.Len(t, g.of("rowan"), 2)
	for _, text := range []string{"Twice unusable", "Break the planner"} {
		failed := requireCode(t, key.Do(http.MethodPost, goals, goalOf(text)), http.StatusBadGateway, "MODEL_ERROR")
		require.Equal(t, "model_error", *pursuedUntil(t, tenant, failed.Error.ExecutionID, "failed").StopReason, text)
	}
	slow := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Plan for long"), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+slow.ExecutionID+"/cancel", nil).Status)
	require.Equal(t, "cancelled", *pursuedUntil(t, tenant, slow.ExecutionID, "cancelled").StopReason)
	rig.Until(t, time.Minute, "the events are there", func() bool {
		var events []struct {
			StopReason string `json:"stop_reason"`
		}
		tenant.User.Do(http.MethodGet, "/v1/events?type=goal.failed&limit=50", nil).Data(t, &events)
		return len(events) == 14
	})
}

// What another agent says is no evidence, and no check reads it.
func TestWordsOfAnotherAgentAreNoEvidence(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, eager))
	maker, _ := agentOf(t, tenant, map[string]any{"name": "Maker"})
	_, goals, key := goalAgent(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"agent:" + path.Base(path.Dir(maker))}}})
	body := goalOf("Trust another agent", criterion("said", ""), criterion("executed", `${ any(.facts[]; .status == "executed") }`))
	p := pursuedOf(t, key.Do(http.MethodPost, goals, body), http.StatusOK)
	require.Equal(t, "no_progress", *p.StopReason)
	for _, c := range p.Criteria {
		require.False(t, c.Met, c.ID)
	}
	e := pursuedOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+p.ExecutionID, nil), http.StatusOK)
	require.Equal(t, "executed", e.Facts[0].Status)
}

// The calls of a goal are bounded by the agent's tools too, whatever its steps.
func TestGoalMakesNoMoreCallsThanItsAgentMay(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	_, goals, key := goalAgent(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"gate:*"}, "max_per_turn": 1}})
	p := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Two calls")), http.StatusOK)
	require.Equal(t, "step_cap", *p.StopReason)
	require.Equal(t, 1, p.ActionsExecuted)
	require.Len(t, g.of("service-tree"), 1)
}

// A call that people have to approve has the goal wait for them. Rejected, it ends the goal; approved, it
// has its effect once.
func TestGoalWaitsForPeople(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		held(t, tenant, "gate:delete_thing")
		_, goals, key := goalAgent(t, tenant, nil)
		for _, c := range []struct {
			decide, status, stop string
			sent                 int
		}{{"reject", "failed", "approval_rejected", 0}, {"approve", "completed", "criteria_met", 1}} {
			waits := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Delete the quince")), http.StatusAccepted)
			require.Equal(t, "pending_approval", waits.Status)
			require.Empty(t, g.of("quince"))
			require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, c.decide, map[string]any{}).Status)
			p := pursuedUntil(t, tenant, waits.ExecutionID, c.status)
			require.Equal(t, c.stop, *p.StopReason)
			require.Equal(t, c.sent, p.ActionsExecuted)
			require.Len(t, g.of("quince"), c.sent)
		}
	})
}

// A policy may block a call that waits for people. They have not rejected it, so the goal goes on.
func TestGoalGoesOnWhereAPolicyBlocksWhatWaits(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	held(t, tenant, "gate:delete_thing")
	_, goals, key := goalAgent(t, tenant, nil)
	waits := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Delete the quince")), http.StatusAccepted)
	a := tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
		"name": "no", "verbMatchers": []any{map[string]any{"type": "verb", "value": "gate:delete_thing"}}, "action": map[string]any{"type": "block"},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{})
	p := pursuedUntil(t, tenant, waits.ExecutionID, "failed")
	require.Equal(t, "no_progress", *p.StopReason)
	require.Empty(t, g.of("quince"))
}

// A message to an agent in the mode goal is a goal whose criteria are the agent's. One that is missed is
// answered all the same.
func TestMessageToAGoalAgentIsAGoal(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, split))
	path, _, key := goalAgent(t, tenant, map[string]any{"completion_criteria": []any{criterion("seen", ""), criterion("made", madeCheck)}})
	met := saidOf(t, key.Do(http.MethodPost, path, write("Make the medlar", "s1")), http.StatusOK)
	require.Equal(t, "completed", met.Status)
	require.Equal(t, "So says the planner: done.", *met.Message)
	require.Equal(t, "criteria_met", *met.Metadata.StopReason)
	require.Len(t, g.of("medlar"), 2)
	missed := saidOf(t, key.Do(http.MethodPost, path, write("Stop me", "s1")), http.StatusOK)
	require.Equal(t, "failed", missed.Status)
	require.Equal(t, "planner_blocked", *missed.Metadata.StopReason)
	e := pursuedOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+met.ExecutionID, nil), http.StatusOK)
	require.Equal(t, "message", e.Kind)
	require.Len(t, e.Facts, 2)

	conversational, other := agentOf(t, tenant, nil)
	requireCode(t, other.Do(http.MethodPost, strings.TrimSuffix(conversational, "message")+"goals", goalOf("Make the medlar")), http.StatusConflict, "CONFLICT")
}

// longPlan calls another thing with each step, and never comes to an end.
func longPlan() (list []string) {
	for left := range 101 {
		list = append(list, plan([]string{"Go on and on", fmt.Sprintf(`name="steps_left">%d<`, left)}, "act", next("gate:create_thing", fmt.Sprintf(`{"id":"on-%d"}`, left))))
	}
	return list
}

// The longest goal fits one history, even if people decide soon about each of its 100 steps. A step about
// which they take a day costs some hundred events more: then a new history goes on before 10,000 events.
func TestLongestGoalFitsOneHistory(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	g, tenant := connected(t, s)
	c := stranger(t, s)
	_, goals, key := goalAgent(t, tenant, map[string]any{"limits": map[string]any{"goal_steps": 100}, "tools": map[string]any{"allow": []string{"gate:*"}, "max_per_turn": 100}})
	size := 0
	events := func(id string) int {
		h := closedHistory(t, c, executionOf(t, tenant.User, id).WorkflowID)
		size = proto.Size(h)
		return len(h.Events)
	}
	long := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Go on and on"), "Prefer: wait=0"), http.StatusAccepted)
	held(t, tenant, "gate:delete_thing")
	waits := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Delete the quince")), http.StatusAccepted)
	require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
	pursuedUntil(t, tenant, waits.ExecutionID, "completed")
	var p pursued
	rig.Until(t, 5*time.Minute, "the goal has ended", func() bool {
		p = pursuedOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+long.ExecutionID, nil), http.StatusOK)
		return p.Status != "running"
	})
	require.Equal(t, "step_cap", *p.StopReason)
	require.Equal(t, 100, p.ActionsExecuted)
	require.Len(t, g.of("on-1"), 1)
	one := events(waits.ExecutionID)
	all := events(long.ExecutionID)
	t.Logf("100 steps: %d events, %d bytes; a step that waits: %d events", all, size, one)
	require.Less(t, all, 100*10)
	require.Less(t, one, 50)
	require.Less(t, size, 1<<20)
}
