package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// rules is a fixture of a manager that reads the texts.
func rules(verdict, criteria, feedback string, reads ...string) string {
	contains := listOf(reads)
	return fmt.Sprintf(`{"purpose":"manager","contains":%s,"json":{"verdict":%q,"criteria":[%s],"feedback":%q,"outputs":{}}}`, contains, verdict, criteria, feedback)
}

// met is a criterion that a manager calls met by evidence.
func met(id string, evidence ...string) string {
	list := listOf(evidence)
	return fmt.Sprintf(`{"id":%q,"met":true,"evidence":%s}`, id, list)
}

const notMet = `{"id":"goal","met":false,"evidence":[]}`

// makes are the answers of a worker that makes a thing at once.
func makes(goal, thing string) []string {
	return []string{
		fixture(0, goal, toolCalls(toolCall("1", "gate:create_thing", `{"id":"`+thing+`"}`))),
		fixture(1, goal, `"text":"It is made."`),
		fixture(2, goal, `"text":"It is made, really."`),
	}
}

// managing are the answers of the scripted model to workers and their managers.
var managing = slices.Concat([]string{
	fixture(0, "Plant the elm", `"text":"I planted it."`),
	fixture(1, "Plant the elm", toolCalls(toolCall("1", "gate:create_thing", `{"id":"elm"}`))),
	fixture(2, "Plant the elm", `"text":"It stands."`),
	rules("retry", notMet, "You made no call.", "Plant the elm", `<data name="calls">[]`),
	rules("complete", met("goal", "c2_0"), "", "Plant the elm", "c2_0"),

	rules("complete", met("goal", "c0_0"), "", "Plant the fir"),
	rules("complete", met("goal"), "", "Plant the ivy"),
	rules("complete", met("goal", "c0_1", "c9_9", "made up"), "", "Plant the oak"),
	rules("complete", met("goal", "c0_0"), "", "Plant the yew"),

	fixture(0, "Find the ash", toolCalls(toolCall("1", "gate:unknown", `{}`), toolCall("2", "gate:get_thing", `{"id":"ash"}`))),
	fixture(1, "Find the ash", `"text":"Found."`),
	`{"purpose":"agent","turn":2,"contains":["Find the ash","c0_0 (gate:unknown)"],"json":{"output":"Found it.","handled":["c0_0"]}}`,
	rules("complete", met("goal", "c0_1"), "", "Find the ash"),

	fixture(0, "Name the bush", `"text":"What?"`),
	`{"purpose":"agent","turn":1,"contains":["Name the bush","\"answer\">{\"name\":\"box\"}"],"text":"It is box."}`,
	rules("complete", met("goal", "input_2"), "", "Name the bush", "input_2"),
	rules("needs_input", notMet, "Which bush is it?", "Name the bush"),

	fixture(0, "Fell the pine", `"text":"May I?"`),
	`{"purpose":"agent","turn":1,"contains":["Fell the pine","\"answer\">\"no\""],"text":"I may not."}`,
	rules("failed", notMet, "They said no.", "Fell the pine", "input_2"),
	rules("escalate", notMet, "A person has to say.", "Fell the pine"),

	fixture(0, "Draw the moss", `"text":"Drawn."`),
	`{"purpose":"manager","turn":1,"contains":["Draw the moss","cannot be used"],"json":{"verdict":"complete","criteria":[` + met("goal", "output") + `],"feedback":"","outputs":{}}}`,
	`{"purpose":"manager","contains":["Draw the moss"],"text":"It is fine."}`,
	fixture(0, "Draw the fern", `"text":"Drawn."`),
	`{"purpose":"manager","contains":["Draw the fern"],"json":{"verdict":"great","criteria":[],"feedback":""}}`,
}, makes("Plant the fir", "fir"), makes("Plant the ivy", "ivy"), makes("Plant the oak", "oak"), makes("Plant the yew", "yew"))

// overseen makes an agent with a manager, which tries a step twice.
func overseen(t *testing.T, tenant *rig.Tenant, allow ...string) string {
	t.Helper()
	scripted := map[string]any{"provider": "builtin", "model": "scripted"}
	return agentIDOf(t, tenant, map[string]any{
		"models": map[string]any{"worker": scripted, "manager": scripted}, "limits": map[string]any{"step_attempts": 2}, "tools": map[string]any{"allow": append([]string{}, allow...)},
	})
}

// verdicts lists what the manager of the first step has decided, with what it has said where that differs.
func verdicts(e mapExecution) (list []string) {
	for _, call := range e.Steps[0].ModelCalls {
		if call.Ruling != nil && call.Ruling.Verdict == call.Ruling.Said {
			list = append(list, call.Ruling.Verdict)
		} else if call.Ruling != nil {
			list = append(list, call.Ruling.Verdict+" for "+call.Ruling.Said)
		}
	}
	return list
}

// Each verdict of a manager leads where it should. One without evidence, or against a check, is worth nothing.
func TestManagerJudgesTheWorkOfSteps(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	g, tenant := connected(t, s)
	id := overseen(t, tenant, "gate:*")
	bare := overseen(t, tenant)
	signal := func(execution, name string, data any) {
		t.Helper()
		a := tenant.User.Do(http.MethodPost, "/v1/executions/"+execution+"/signal", map[string]any{"name": name, "data": data})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}
	// waitsFor waits until the execution waits for what a manager asks, and until others are told so.
	waitsFor := func(execution, what, question string) {
		t.Helper()
		path := "/v1/executions/" + execution
		require.Eventually(t, func() bool {
			a := tenant.User.Do(http.MethodGet, path, nil)
			e := mapExecutionOf(t, a, http.StatusOK)
			return e.WaitingFor != nil && e.WaitingFor.For == what && strings.Contains(string(a.Body), question)
		}, time.Minute, 50*time.Millisecond)
		require.Eventually(t, func() bool { return len(waitingEventsOf(t, tenant, path)) > 0 }, time.Minute, 50*time.Millisecond)
		require.Equal(t, []waitEvent{{what, "work"}}, waitingEventsOf(t, tenant, path))
	}
	for goal, c := range map[string]struct {
		agent, more string
		do          func(execution string)
		verdicts    string
		// ends is the output, or the code of the error.
		ends string
	}{
		"Plant the fir": {id, "", nil, "complete", `"It is made."`},
		"Plant the elm": {id, "", nil, "retry complete", `"It stands."`},
		"Plant the ivy": {id, "", nil, "retry for complete, retry for complete", "GOAL_NOT_REACHED"},
		"Plant the oak": {id, "", nil, "retry for complete, retry for complete", "GOAL_NOT_REACHED"},
		"Plant the yew": {id, `,"complete_when":"${false}"`, nil, "retry for complete, retry for complete", "GOAL_NOT_REACHED"},
		"Find the ash":  {id, "", nil, "retry for complete, complete", `"Found it."`},
		"Name the bush": {bare, "", func(execution string) {
			waitsFor(execution, "input", "Which bush is it?")
			signal(execution, "input", map[string]any{"name": "box"})
		}, "needs_input complete", `"It is box."`},
		"Fell the pine": {bare, "", func(execution string) {
			waitsFor(execution, "signal", "A person has to say.")
			signal(execution, "handled", "no")
		}, "escalate failed", "GOAL_NOT_REACHED"},
		"Draw the moss": {bare, "", nil, "complete", `"Drawn."`},
		"Draw the fern": {bare, "", nil, "", "MODEL_ERROR"},
	} {
		t.Run(goal, func(t *testing.T) {
			t.Parallel()
			trigger := publish(t, tenant, goal, `[{"id":"work","type":"agent","agent_id":"`+c.agent+`","goal":"`+goal+`"`+c.more+`}]`)
			var begun mapExecution
			tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0").Data(t, &begun)
			if c.do != nil {
				c.do(begun.ExecutionID)
			}
			var e mapExecution
			require.Eventually(t, func() bool {
				e = mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+begun.ExecutionID, nil), http.StatusOK)
				return e.Status == "completed" || e.Status == "failed"
			}, time.Minute, 50*time.Millisecond)
			require.Equal(t, strings.ReplaceAll(c.verdicts, ", ", " "), strings.Join(verdicts(e), " "))
			if e.Error != nil {
				require.Equal(t, c.ends, e.Error.Code, e.Error.Detail)
				return
			}
			require.Equal(t, c.ends, string(e.Output))
		})
	}
	t.Cleanup(func() { require.Len(t, g.of("fir"), 1) })
}
