//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Answers of the model, of 100 tokens each: to a conversation (a worker that asks, is judged, calls,
// answers and is judged; and one that calls, answers and is judged), and to a goal of two calls.
const (
	answersOfGuided = 8
	answersOfGoal   = 3
	tokensOfAnswer  = 100
)

// guidedMap has a step that asks the customer, and one that must not begin before that is complete.
const guidedMap = `{"schema_version":"1","name":"Guided","steps":[
	{"id":"first","type":"agent","goal":"Make the first of ${trigger_data.message}"},
	{"id":"second","type":"agent","goal":"Make the second of ${trigger_data.message}"}],"output":"Both are made."}`

var (
	guidedName = regexp.MustCompile(`(conversation|goal)-\d+`)
	callIDs    = regexp.MustCompile(`"id":"(c\d+_\d+)"`)
)

// works is a model that does the steps of guidedMap, judges them, and plans goals.
type works struct {
	mu sync.Mutex
	// complete has the conversations of which the first step was found complete, early those of which the
	// second step was begun before that.
	complete, early map[string]bool
}

// note keeps that a step of the conversation was found complete, or has begun.
func (m *works) note(name string, first, complete bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first && complete {
		m.complete[name] = true
	}
	if !first && !m.complete[name] {
		m.early[name] = true
	}
}

// answer answers a request to the model.
func (m *works) answer(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var req struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	_ = json.Unmarshal(raw, &req)
	var all strings.Builder
	told := false
	for _, one := range req.Messages {
		fmt.Fprintln(&all, one.Content)
		told = told || one.Role == "tool"
	}
	said := all.String()
	name := guidedName.FindString(said)
	first := strings.Contains(said, "Make the first")
	ruling := func(verdict, question string, evidence ...string) {
		say(w, map[string]any{"verdict": verdict, "feedback": question, "outputs": map[string]any{}, "criteria": []any{
			map[string]any{"id": "goal", "met": len(evidence) > 0, "evidence": append([]string{}, evidence...)},
		}})
	}
	made := callIDs.FindStringSubmatch(said)
	manages, plans := strings.Contains(said, "You are the manager"), strings.Contains(said, "You plan the work")
	if !plans {
		m.note(name, first, manages && made != nil)
	}
	switch {
	case plans:
		say(w, planned(name, said))
	case manages && made != nil:
		ruling("complete", "", made[1])
	case manages && first:
		ruling("needs_input", "How many of "+name+"?")
	case manages:
		ruling("retry", "Make it.")
	case first && !strings.Contains(said, `name="answer"`):
		say(w, "How many?")
	case told:
		say(w, "It is made.")
	default:
		id := name + "-second"
		if first {
			id = name + "-first"
		}
		answerAs(w, map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": id, "type": "function", "function": map[string]any{
			"name": "target__make_keyed", "arguments": `{"id":"` + id + `","filler":"x"}`,
		}}}}, "tool_calls")
	}
}

// planned is the answer of a planner: two calls, and then the goal is reached.
func planned(name, said string) map[string]any {
	plan := map[string]any{"status": "act", "remaining_plan": []string{}, "next": nil, "criteria": []any{}, "reason": "It is so."}
	act := func(id string) {
		plan["next"] = map[string]any{"verb": "target:make_keyed", "args": map[string]any{"id": name + id, "filler": "x"}, "why": "w", "expect": "e"}
	}
	switch {
	case strings.Contains(said, `"id":"f2"`):
		plan["status"], plan["criteria"] = "done", []any{map[string]any{"id": "goal", "met": true, "evidence": []string{"f1", "f2"}}}
	case strings.Contains(said, `"id":"f1"`):
		act("-second")
	default:
		act("-first")
	}
	return plan
}

// say answers with a text, or with JSON.
func say(w http.ResponseWriter, answer any) {
	text, plain := answer.(string)
	if !plain {
		raw, err := json.Marshal(answer)
		if err != nil {
			panic(err) // it is made of plain values
		}
		text = string(raw)
	}
	answerAs(w, map[string]any{"content": text}, "stop")
}

// guide is many conversations with an agent that works by a Map, and as many goals, at once.
type guide struct {
	*talk

	model         *works
	guided, goals string
}

func newGuide(t *testing.T) *guide {
	t.Helper()
	m := &works{complete: map[string]bool{}, early: map[string]bool{}}
	k := &guide{talk: newTalkWith(t, m.answer), model: m}
	a := k.tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(guidedMap))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	long := map[string]any{"limits": map[string]any{"wall_clock": "1h"}}
	of := map[string]any{"executionMode": "workflow_only", "map_id": path.Base(a.Header.Get("Location"))}
	maps.Copy(of, long)
	k.guided = k.agent(of)
	of = map[string]any{"executionMode": "goal"}
	maps.Copy(of, long)
	k.goals = k.agent(of)
	budgets := map[string]any{"key_id": nil, "model_tokens": 1_000_000_000, "money_micros": nil, "write_calls": nil}
	require.Equal(t, http.StatusOK, k.tenant.User.Do(http.MethodPut, "/v1/budgets", budgets).Status)
	return k
}

// guidedReply is the answer to a message or a goal.
type guidedReply struct {
	ExecutionID string `json:"execution_id"`
	Status      string
	Message     *string
	StopReason  *string `json:"stop_reason"`
	Metadata    struct {
		StopReason     *string `json:"stop_reason"`
		MapExecutionID *string `json:"map_execution_id"`
	}
}

// hold has n conversations and n goals at once, and calls kills meanwhile.
func (k *guide) hold(n int, kills func(k *guide)) {
	k.t.Helper()
	began, failed := time.Now(), make([]error, 2*n)
	until := began.Add(talkLimit)
	asked, done, reached := make([]guidedReply, n), make([]guidedReply, n), make([]guidedReply, n)
	var wg sync.WaitGroup
	for i := range n {
		name := "conversation-" + strconv.Itoa(i)
		wg.Go(func() {
			body := map[string]any{"message": name, "session_id": name}
			if failed[i] = k.ask(k.guided+"/message", name+"-0", body, until, &asked[i]); failed[i] == nil {
				body["message"] = "two"
				failed[i] = k.ask(k.guided+"/message", name+"-1", body, until, &done[i])
			}
		})
		wg.Go(func() {
			name := "goal-" + strconv.Itoa(i)
			failed[n+i] = k.ask(k.goals+"/goals", name, map[string]any{"goal": "Make both of " + name}, until, &reached[i])
		})
	}
	kills(k)
	wg.Wait()
	for _, err := range failed {
		require.NoError(k.t, err)
	}
	require.Empty(k.t, k.model.early, "a step begins when the one before is complete")
	for i := range n {
		k.judgeGuided(i, asked[i], done[i])
		k.judgeGoal(i, reached[i])
	}
	var b struct {
		Tenant struct {
			Tokens struct{ Used int64 } `json:"model_tokens"`
		}
	}
	k.tenant.User.Do(http.MethodGet, "/v1/budgets", nil).Data(k.t, &b)
	require.EqualValues(k.t, n*(answersOfGuided+answersOfGoal)*tokensOfAnswer, b.Tenant.Tokens.Used)
	k.remember()
	k.t.Logf("%d conversations and %d goals took %.0f s, and the worker %d MB at most", n, n, time.Since(began).Seconds(), k.peak>>20)
}

// judgeGuided says whether the Map of a conversation asked, went on where it was, and made each thing
// once, the second after the first was complete.
func (k *guide) judgeGuided(i int, asked, done guidedReply) {
	k.t.Helper()
	name := "conversation-" + strconv.Itoa(i)
	require.Equal(k.t, []string{"completed", "How many of " + name + "?", "needs_input"}, []string{asked.Status, *asked.Message, *asked.Metadata.StopReason})
	require.Equal(k.t, []string{"completed", "Both are made.", "map_completed"}, []string{done.Status, *done.Message, *done.Metadata.StopReason})
	require.Equal(k.t, asked.Metadata.MapExecutionID, done.Metadata.MapExecutionID)
	var e struct {
		Status          string
		ActionsExecuted int   `json:"actions_executed"`
		TokensUsed      int64 `json:"tokens_used"`
		Steps           []struct {
			ID         string
			ModelCalls []struct {
				Ruling *struct{ Verdict string }
			} `json:"model_calls"`
		}
	}
	k.tenant.User.Do(http.MethodGet, "/v1/executions/"+*done.Metadata.MapExecutionID, nil).Data(k.t, &e)
	require.Equal(k.t, "completed", e.Status)
	require.Equal(k.t, 2, e.ActionsExecuted)
	require.EqualValues(k.t, answersOfGuided*tokensOfAnswer, e.TokensUsed)
	require.Len(k.t, e.Steps, 2)
	var verdicts []string
	for _, step := range e.Steps {
		for _, call := range step.ModelCalls {
			if call.Ruling != nil {
				verdicts = append(verdicts, step.ID+" "+call.Ruling.Verdict)
			}
		}
	}
	require.Equal(k.t, []string{"first needs_input", "first complete", "second complete"}, verdicts)
	k.once(name)
}

// judgeGoal says whether a goal was reached, and each thing made once.
func (k *guide) judgeGoal(i int, reached guidedReply) {
	k.t.Helper()
	name := "goal-" + strconv.Itoa(i)
	require.Equal(k.t, "completed", reached.Status)
	require.Equal(k.t, "criteria_met", *reached.StopReason)
	var e struct {
		Facts      []struct{ ID, Status string }
		TokensUsed int64 `json:"tokens_used"`
	}
	k.tenant.User.Do(http.MethodGet, "/v1/executions/"+reached.ExecutionID, nil).Data(k.t, &e)
	require.Len(k.t, e.Facts, 2)
	require.EqualValues(k.t, answersOfGoal*tokensOfAnswer, e.TokensUsed)
	k.once(name)
}

// once requires that both things of a name were made once.
func (k *guide) once(name string) {
	k.t.Helper()
	for _, which := range []string{"-first", "-second"} {
		_, effects := k.provider.counts(name + which)
		require.Equal(k.t, 1, effects, name+which)
	}
}

// guidedConversations is how many conversations and goals the short form has; GUIDED sets it.
func guidedConversations(t *testing.T) int {
	t.Helper()
	text := os.Getenv("GUIDED")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "GUIDED")
	return n
}

// Agents that work by a Map and goals go on over the death of the worker and of the API.
func TestChaosGuidedAgentsAndGoalsGoOn(t *testing.T) {
	t.Parallel()
	newGuide(t).hold(guidedConversations(t), func(k *guide) {
		for _, place := range []string{"after_response", "turn_answered"} {
			k.kill("worker", place)
		}
		k.kill("api", claimPlace)
	})
}

// 100 conversations and 100 goals go on at once, while the worker dies at each place of a message, and the
// others at any moment.
func TestChaosHundredGuidedAgentsAndGoalsGoOn(t *testing.T) {
	t.Parallel()
	newGuide(t).hold(100, func(k *guide) {
		for _, place := range messagePlaces {
			k.kill("worker", place)
		}
		k.kill("api", claimPlace)
		for _, victim := range []string{"temporal", "postgres", "worker"} {
			k.kill(victim, "")
		}
	})
}
