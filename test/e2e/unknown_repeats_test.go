package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// losing calls a write whose answer is lost, in one of several spellings.
func losing(name, fruit, amount string) string {
	return toolCalls(toolCall("1", name, `{"mode":"vanish","amount":`+amount+`,"id":"`+fruit+`"}`))
}

// unsettling are the answers of the scripted model, which makes a write again whose outcome is unknown.
var unsettling = slices.Concat([]string{
	`{"purpose":"reply","contains":["Lose the cherry","People have decided"],"text":"The cherry is settled."}`,
	`{"purpose":"reply","turn":0,"contains":["Lose the cherry"],` + losing("gate__create_thing", "cherry", "100") + `}`,
	`{"purpose":"reply","turn":1,"contains":["Lose the cherry","OUTCOME_UNKNOWN"],` +
		toolCalls(toolCall("2", "gate__create_thing", `{ "id":"\u0063herry", "amount":1e2, "mode":"vanish" }`)) + `}`,
	`{"purpose":"reply","turn":2,"contains":["Lose the cherry","was not made"],` + losing("gate__create_thing", "cherry", "100.0") + `}`,
	`{"purpose":"reply","contains":["Lose the cherry"],"text":"A person looks at the cherry."}`,

	`{"purpose":"reply","turn":6,"contains":["damson once more"],"text":"It is lost again."}`,
	`{"purpose":"reply","turn":5,"contains":["damson once more"],` + losing("gate__create_thing", "damson", "1") + `}`,
	`{"purpose":"reply","contains":["Lose the damson","People have decided"],"text":"The damson is settled."}`,
	`{"purpose":"reply","contains":["damson again","was not made"],"text":"It is still open."}`,
	`{"purpose":"reply","contains":["damson again"],` + losing("gate__create_thing", "damson", "1.0") + `}`,
	`{"purpose":"reply","contains":["Lose the damson","OUTCOME_UNKNOWN"],"text":"A person looks at the damson."}`,
	`{"purpose":"reply","contains":["Lose the damson"],` + losing("gate__create_thing", "damson", "1") + `}`,

	`{"purpose":"reply","contains":["Have the greengage lost","has started has ended"],"text":"They have settled it."}`,
	`{"purpose":"reply","turn":2,"contains":["Have the greengage lost"],"text":"They could not."}`,
	`{"purpose":"reply","contains":["Have the greengage lost"],` + toolCalls(toolCall("1", "ask_maker", `{"message":"Lose the greengage"}`)) + `}`,
	`{"purpose":"reply","contains":["Lose the greengage","People have decided"],"text":"The greengage is settled."}`,
	`{"purpose":"reply","turn":1,"contains":["Lose the greengage"],"text":"A person looks at the greengage."}`,
	`{"purpose":"reply","contains":["Lose the greengage"],` + losing("gate__create_thing", "greengage", "1") + `}`,

	`{"purpose":"reply","turn":0,"contains":["Lose the sloe twice"],` + toolCalls(toolCall("1", "start_lose_the_sloe", `{}`), toolCall("2", "gate__create_thing", `{"mode":"vanish","amount":1,"id":"sloe"}`)) + `}`,
	`{"purpose":"reply","contains":["Lose the sloe twice"],"text":"A person looks at the sloe."}`,

	fixture(0, "Lose the cornel", losing("gate:create_thing", "cornel", "1")),
	`{"purpose":"agent","contains":["Lose the cornel","\"status\":\"executed\""],"text":"It is lost."}`,
},
	[]string{
		plan([]string{"Lose the myrtle", `"status":"executed"`}, "done", "", claim("made", "f1")),
		plan([]string{"Lose the myrtle"}, "act", next("gate:create_thing", `{"id":"myrtle","mode":"hold"}`)),
		plan([]string{"Lose the bullace", `"status":"executed"`}, "done", "", claim("made", "f2")),
		plan([]string{"Lose the bullace"}, "act", next("gate:create_thing", `{"id":"bullace","mode":"vanish"}`)),
	})

// unsettledRun waits for the one call of the tenant whose outcome is unknown, and returns a way to settle it.
func unsettledRun(t *testing.T, tenant *rig.Tenant) (settle func(outcome string)) {
	t.Helper()
	var runs []struct {
		ExecutionID string `json:"execution_id"`
	}
	rig.Until(t, 3*arriveLimit, "the outcome of one call is unknown", func() bool {
		tenant.User.Do(http.MethodGet, "/v1/executions?status=outcome_unknown", nil).Data(t, &runs)
		return len(runs) == 1
	})
	return func(outcome string) {
		t.Helper()
		a := tenant.User.Do(http.MethodPost, "/v1/executions/"+runs[0].ExecutionID+"/resolve", map[string]any{"outcome": outcome, "reason": "looked at the provider"})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}
}

// A model makes a write again whose answer was lost, and writes it in another way each time. The provider
// gets it once; the message waits for people, and hears what they have found out.
func TestAgentDoesNotRepeatAWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		path, key := agentOf(t, tenant, nil)
		waits := saidOf(t, key.Do(http.MethodPost, path, write("Lose the cherry", "")), http.StatusOK)
		require.Equal(t, "A person looks at the cherry.", *waits.Message)
		require.Equal(t, "pending_approval", waits.Status)
		require.Equal(t, "approved", waits.GovernanceStatus, "to settle an outcome is no approval")
		require.Nil(t, waits.ApprovalID)
		require.Equal(t, 1, waits.ActionsExecuted)
		require.Len(t, g.of("cherry"), 1)

		unsettledRun(t, tenant)("executed")
		ended := executionUntil(t, tenant, waits.ExecutionID, "completed")
		require.Equal(t, "The cherry is settled.", *ended.Reply)
		require.Equal(t, 1, ended.ActionsExecuted)
		require.Len(t, g.of("cherry"), 1)
	})
}

// Later messages of a session do not repeat such a write either. Once people have found that it had no
// effect, another try is another call.
func TestSessionDoesNotRepeatAWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		path, key := agentOf(t, tenant, nil)
		waits := saidOf(t, key.Do(http.MethodPost, path, write("Lose the damson", "s1")), http.StatusOK)
		require.Equal(t, "pending_approval", waits.Status)
		again := saidOf(t, key.Do(http.MethodPost, path, write("Yes, lose the damson again", "s1")), http.StatusOK)
		require.Equal(t, "It is still open.", *again.Message)
		require.Equal(t, "completed", again.Status)
		require.Zero(t, again.ActionsExecuted)
		require.Len(t, g.of("damson"), 1)

		unsettledRun(t, tenant)("failed")
		require.Equal(t, "The damson is settled.", *executionUntil(t, tenant, waits.ExecutionID, "completed").Reply)
		more := saidOf(t, key.Do(http.MethodPost, path, write("Lose the damson once more", "s1")), http.StatusOK)
		require.Equal(t, "It is lost again.", *more.Message)
		require.Equal(t, "pending_approval", more.Status)
		require.Len(t, g.of("damson"), 2)

		other := saidOf(t, key.Do(http.MethodPost, path, write("Lose the damson", "s2")), http.StatusOK)
		require.Equal(t, "pending_approval", other.Status)
		require.Len(t, g.of("damson"), 3, "another session is another chain")
	})
}

// A goal waits for the outcome of its call, and goes on with what people have found out.
func TestGoalDoesNotRepeatAWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		_, goals, key := goalAgent(t, tenant, nil)
		waits := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Lose the bullace")), http.StatusAccepted)
		require.Equal(t, "pending_approval", waits.Status)
		require.Equal(t, "approved", waits.GovernanceStatus)
		require.Len(t, g.of("bullace"), 1)

		unsettledRun(t, tenant)("failed")
		rig.Until(t, 3*arriveLimit, "the call is made once more", func() bool { return len(g.of("bullace")) == 2 })
		unsettledRun(t, tenant)("executed")
		ended := pursuedUntil(t, tenant, waits.ExecutionID, "completed")
		require.Equal(t, "criteria_met", *ended.StopReason)
		require.Equal(t, 2, ended.ActionsExecuted)
		require.Len(t, g.of("bullace"), 2)
	})
}

// An agent that asks another one twice gets the effect once, and both wait for people.
func TestAskedAgentDoesNotRepeatAWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	path, key, _ := asker(t, tenant, nil)
	waits := saidOf(t, key.Do(http.MethodPost, path, write("Have the greengage lost", "")), http.StatusOK)
	require.Equal(t, "They could not.", *waits.Message)
	require.Equal(t, "pending_approval", waits.Status)
	require.Len(t, g.of("greengage"), 1)
	unsettledRun(t, tenant)("executed")
	require.Equal(t, "They have settled it.", *executionUntil(t, tenant, waits.ExecutionID, "completed").Reply)
	require.Len(t, g.of("greengage"), 1)
}

// A model asks at once for a write and for a Map that makes the same one. Whichever comes first has its effect.
func TestWriteIsNotRepeatedByAMapOfTheSameAnswer(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	message, key, _ := starter(t, tenant, `{"schema_version":"1","name":"Lose the sloe","steps":[{"id":"lose","type":"verb","verb":"gate:create_thing","args":{"mode":"vanish","amount":1,"id":"sloe"}}]}`)
	for try := range 5 {
		saidOf(t, key.Do(http.MethodPost, message, write("Lose the sloe twice", "")), http.StatusOK)
		require.Len(t, g.of("sloe"), try+1)
	}
}

// Two agents in one Map want the same write. One makes it, and both go on with what became of it.
func TestModelStepsDoNotRepeatAWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		agent := func(id string) string {
			return `{"id":"` + id + `","type":"agent","goal":"Lose the cornel","tools":["gate:*"]}`
		}
		trigger := publish(t, tenant, "Loses the cornel", `[{"id":"both","type":"parallel","branches":[{"id":"a","steps":[`+agent("x")+`]},{"id":"b","steps":[`+
			`{"id":"go","type":"wait","event":{"type":"go"}},`+agent("y")+`]}]}]`)
		path := startMap(t, tenant, trigger, map[string]any{})
		settle := unsettledRun(t, tenant)
		require.Less(t, signal(t, tenant, path, "go", nil).Status, 300)
		rig.Until(t, 3*arriveLimit, "the second model has asked for the call", func() bool {
			e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
			waiting := 0
			for _, step := range e.Steps {
				if step.Type == "agent" && step.Status == "waiting" {
					waiting++
				}
			}
			return waiting == 2
		})
		settle("executed")
		e := endOf(t, tenant, path)
		require.Equal(t, "completed", e.Status, "%+v", e.Error)
		require.Equal(t, 1, e.ActionsExecuted)
		require.Len(t, g.of("cornel"), 1)
	})
}

// A goal is killed while its call is at the provider. Nobody knows what came of that, and the goal does not
// make it again.
func TestKilledGoalDoesNotRepeatItsWrite(t *testing.T) {
	t.Parallel()
	s := rig.Dev(t, modelScript(t))
	g, tenant := connected(t, s)
	_, goals, key := goalAgent(t, tenant, nil)
	go key.Do(http.MethodPost, goals, goalOf("Lose the myrtle"))
	require.Equal(t, "myrtle", g.awaitArrival(t))
	s.Parts["dev"].KillTree(t)
	restart(t, s, "kill -9 of the whole tree")
	settle := unsettledRun(t, tenant)
	var open []struct {
		ExecutionID string `json:"execution_id"`
	}
	tenant.User.Do(http.MethodGet, "/v1/executions?kind=goal", nil).Data(t, &open)
	require.Len(t, open, 1)
	require.Equal(t, 1, pursuedUntil(t, tenant, open[0].ExecutionID, "pending_approval").ActionsExecuted)
	settle("executed")
	require.Equal(t, "criteria_met", *pursuedUntil(t, tenant, open[0].ExecutionID, "completed").StopReason)
	require.Len(t, g.of("myrtle"), 1)
}
