package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// modelCall is a call of a model as GET /v1/executions/{id} shows it.
type modelCall struct {
	Attempt, Turn          int
	Purpose, Model, Status string
	Finish                 string
	Tokens                 struct{ Input, Cached, Output int64 }
	Calls                  []struct {
		Verb        string
		ExecutionID string `json:"execution_id"`
	}
	Ruling    *struct{ Verdict, Said string }
	LatencyMS float64 `json:"latency_ms"`
}

// fixture is an answer of the scripted model to an agent. Each test asks for a goal of its own.
func fixture(turn int, contains, answer string) string {
	return fmt.Sprintf(`{"purpose":"agent","turn":%d,"contains":[%q],%s}`, turn, contains, answer)
}

func toolCall(id, verb, args string) string {
	return fmt.Sprintf(`{"id":%q,"name":%q,"args":%s}`, id, verb, args)
}

func toolCalls(list ...string) string { return `"calls":[` + strings.Join(list, ",") + `]` }

// scripted are the answers of the model in tests that are not cases of testdata/maps.
var scripted = []string{
	fixture(0, "Make the apple", `"text":"I look first.",`+toolCalls(
		toolCall("1", "gate:get_thing", `{"id":"apple"}`), toolCall("2", "gate:unknown", `{}`), toolCall("3", "gate:create_thing", `["apple"]`))),
	fixture(1, "Make the apple", `"json":{"made":false}`),
	fixture(2, "The goal is not reached yet", `"usage":{"input":1000,"cached":900,"output":10},`+toolCalls(toolCall("4", "gate:create_thing", `{"id":"apple"}`))),
	fixture(3, "Make the apple", `"json":{"made":true}`),

	fixture(0, "Delete the pear", toolCalls(toolCall("1", "gate:delete_thing", `{"id":"pear"}`))),
	`{"purpose":"agent","turn":1,"contains":["Delete the pear","GOVERNANCE_BLOCKED"],"text":"They said no."}`,
	`{"purpose":"agent","turn":1,"contains":["Delete the pear","executed"],"text":"It is gone."}`,

	`{"purpose":"agent","contains":["Never stop"],` + toolCalls(toolCall("1", "gate:get_thing", `{"id":"never"}`)) + `}`,

	`{"purpose":"reason","contains":["Which echo","canary-of-models"],"json":{"answer":"leaked","reason":"-"}}`,
	`{"purpose":"reason","contains":["Which echo"],"json":{"answer":"clean","reason":"-"}}`,

	`{"purpose":"summarize","contains":["The hazel bears nuts"],"text":"A hazel."}`,
	`{"purpose":"summarize","contains":["counts below zero"],"text":"short","usage":{"input":-50,"cached":-1,"output":-50}}`,
	`{"purpose":"summarize","contains":["counts beyond"],"text":"short","usage":{"input":9000000000000000000,"cached":0,"output":9000000000000000000}}`,
	`{"purpose":"summarize","contains":["an odd end"],"text":"short","finish":"s\u0000top"}`,

	`{"purpose":"summarize","contains":["a slow answer"],"text":"slow","delay_ms":3000}`,
	`{"purpose":"summarize","contains":["never ends"],"text":"late","delay_ms":100000}`,
}

// modelScript writes the answers of the scripted model: those of the cases of testdata/maps, and
// those of other tests.
func modelScript(tb testing.TB) string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(rig.Root(), "testdata", "maps", "*.json"))
	require.NoError(tb, err)
	var all []json.RawMessage
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(tb, err)
		var c struct{ Models []json.RawMessage }
		require.NoError(tb, json.Unmarshal(raw, &c))
		all = append(all, c.Models...)
	}
	for _, one := range slices.Concat(unsettling, scripted, plans, rehearsals, hostilePlans, faultReplies, recalls, remembering, rememberingPlans, loops, sessionReplies, persons, starting, stepAgents, managing, guiding, spending, paging, forged, inLanguages, printing, judging, refusals, hiding, replies) {
		all = append(all, json.RawMessage(one))
	}
	raw, err := json.Marshal(all)
	require.NoError(tb, err)
	file := filepath.Join(tb.TempDir(), "models.json")
	require.NoError(tb, os.WriteFile(file, raw, 0o600))
	return "MODEL_SCRIPT=" + file
}

func agentStep(goal, more string) string {
	return `[{"id":"work","type":"agent","goal":"` + goal + `","tools":["gate:get_thing","gate:create_*","gate:delete_thing"]` + more + `}]`
}

// held makes people decide about each call of the verb.
func held(t *testing.T, tenant *rig.Tenant, verb string) {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
		"name": "asks", "verbMatchers": []any{map[string]any{"type": "verb", "value": verb}}, "action": map[string]any{"type": "require_approval"}, "approval": map[string]any{"self_approval": true},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
}

// The agent looks, answers too early, is told so, writes, and answers. Each call is a governed run
// of the execution; two calls that cannot be made are not.
func TestAgentCallsVerbsUnderGovernance(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Agent", agentStep("Make the apple, for ${trigger_data.whom}", `,
			"output_schema":{"type":"object","required":["made"]},"max_attempts":2,
			"complete_when":"${any(.calls[]; .verb == \"gate:create_thing\" and .status == \"executed\" and .result.id == \"apple\") and (.calls | length) == 4 and .output.made}"`))
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"whom": "Ann"}}, "Prefer: wait=60")
		e := mapExecutionOf(t, a, http.StatusOK)
		require.JSONEq(t, `{"made":true}`, string(e.Output))
		require.Len(t, g.of("apple"), 2)
		require.Equal(t, 2, e.ActionsExecuted)

		a = tenant.User.Do(http.MethodGet, "/v1/executions/"+e.ExecutionID, nil)
		require.NotContains(t, string(a.Body), "I look first", "what a model writes is not shown")
		e = mapExecutionOf(t, a, http.StatusOK)
		require.Len(t, e.Steps, 1)
		var tokens int64
		finishes := []string{}
		for i, call := range e.Steps[0].ModelCalls {
			require.Equal(t, []any{1, i, "agent", "scripted", "completed"}, []any{call.Attempt, call.Turn, call.Purpose, call.Model, call.Status})
			finishes = append(finishes, call.Finish)
			tokens += call.Tokens.Input + call.Tokens.Output
		}
		require.Equal(t, []string{"tool_calls", "stop", "tool_calls", "stop"}, finishes)
		require.Equal(t, struct{ Input, Cached, Output int64 }{1000, 900, 10}, e.Steps[0].ModelCalls[2].Tokens)
		require.Equal(t, tokens, e.TokensUsed)

		for turn, verb := range []string{"gate:get_thing", "", "gate:create_thing", ""} {
			calls := e.Steps[0].ModelCalls[turn].Calls
			if verb == "" {
				require.Empty(t, calls)
				continue
			}
			require.Len(t, calls, 1)
			require.Equal(t, verb, calls[0].Verb)
			require.Equal(t, "executed", executionOf(t, tenant.User, calls[0].ExecutionID).Status)
		}
	})
}

// A call of an agent that is held waits for people. The agent hears what they have decided.
func TestAgentHearsWhatPeopleDecide(t *testing.T) {
	t.Parallel()
	for decision, says := range map[string]string{"approve": "It is gone.", "reject": "They said no."} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			g, tenant := connected(t, stack(t, eager))
			held(t, tenant, "gate:delete_thing")
			trigger := publish(t, tenant, "Agent", agentStep("Delete the pear", ""))
			path := "/v1/executions/" + executionIn(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"))
			var list []struct{ ID string }
			rig.Until(t, 3*arriveLimit, "people are asked", func() bool {
				tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &list)
				return len(list) == 1
			})
			rig.Until(t, 3*arriveLimit, "the execution waits for them", func() bool {
				return mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK).Status == "pending_approval"
			})
			require.Empty(t, g.all())
			a := tenant.User.Do(http.MethodPost, "/v1/approvals/"+list[0].ID+"/"+decision, map[string]any{"reason": "so"})
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
			require.Equal(t, "completed", e.Status)
			require.JSONEq(t, strconv.Quote(says), string(e.Output))
			require.Len(t, g.of("pear"), map[string]int{"approve": 1}[decision])
		})
	}
}

// A model that always asks for calls is stopped by the number of its turns, or by limits.max_actions.
func TestAgentThatNeverStopsIsStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits, code string
		sent         int
	}{
		"turns":   {``, "MODEL_ERROR", 10},
		"actions": {`,"limits":{"max_actions":3}`, "ACTIONS_LIMIT", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tenant := connected(t, stack(t, eager))
			definition := `{"schema_version":"1","name":"Never","steps":` + agentStep("Never stop", "") + c.limits + `}`
			a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(definition))
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			a = tenant.Runtime.Do(http.MethodPost, a.Header.Get("Location")+"/trigger", map[string]any{}, "Prefer: wait=60")
			e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+executionIn(t, a), nil, "Prefer: wait=60"), http.StatusOK)
			require.Equal(t, "failed", e.Status)
			require.Equal(t, c.code, e.Error.Code)
			require.Len(t, g.of("never"), c.sent)
			require.Equal(t, c.sent, e.ActionsExecuted)
		})
	}
}

// What models use counts in the budgets of the tenant. Without room no model is asked.
func TestModelThatReportsOddlyHarmsNothing(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	for input, counts := range map[string]func(int64) bool{
		"counts below zero": func(n int64) bool { return n == 0 },
		"counts beyond":     func(n int64) bool { return n > 0 },
		"an odd end":        func(n int64) bool { return n > 0 },
	} {
		trigger := publish(t, tenant, "Odd", `[{"id":"s","type":"summarize","input":"`+input+`"}]`)
		e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{}}, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", e.Status, input)
		var seen struct {
			TokensUsed int64 `json:"tokens_used"`
		}
		tenant.User.Do(http.MethodGet, "/v1/executions/"+e.ExecutionID, nil).Data(t, &seen)
		require.True(t, counts(seen.TokensUsed), "%s: %d", input, seen.TokensUsed)
	}
}

func TestModelStepsCountInBudgets(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, eager))
	set := func(tokens int) {
		a := tenant.User.Do(http.MethodPut, "/v1/budgets", map[string]any{"key_id": nil, "model_tokens": tokens, "money_micros": nil, "write_calls": nil})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}
	used := func() (used, reserved int64) {
		var b struct {
			Tenant struct {
				Tokens struct{ Used, Reserved int64 } `json:"model_tokens"`
			}
		}
		tenant.User.Do(http.MethodGet, "/v1/budgets", nil).Data(t, &b)
		return b.Tenant.Tokens.Used, b.Tenant.Tokens.Reserved
	}
	trigger := publish(t, tenant, "Kind", `[{"id":"kind","type":"classify","input":"Money back!","labels":["refund","question"]}]`)
	run := func() mapExecution {
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60")
		return mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+executionIn(t, a), nil, "Prefer: wait=60"), http.StatusOK)
	}
	set(1_000_000)
	e := run()
	require.Equal(t, "completed", e.Status)
	require.Positive(t, e.TokensUsed)
	spent, reserved := used()
	require.Equal(t, e.TokensUsed, spent)
	require.Zero(t, reserved)

	set(4096)
	e = run()
	require.Equal(t, "failed", e.Status)
	require.Equal(t, "BUDGET_EXCEEDED", e.Error.Code)
	require.Zero(t, e.TokensUsed)
	require.Equal(t, "failed", e.Steps[0].ModelCalls[0].Status)
	after, reserved := used()
	require.Equal(t, spent, after)
	require.Zero(t, reserved)
}

// No model reads the secret of a credential, also where a provider sends it back.
func TestModelReadsNoSecret(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := newTenant(s)
	base := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"seen": r.Header.Get("Authorization")})
	}))
	tenant.Connect(t, "gate", base, gateDocument(), "bearer", map[string]string{"token": "canary-of-models"})
	trigger := publish(t, tenant, "Echo", `[{"id":"look","type":"verb","verb":"gate:get_thing","args":{"id":"x"}},
		{"id":"why","type":"reason","question":"Which echo is ${steps.look.output.seen}?","context":"${steps.look.output}"}]`)
	e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), http.StatusOK)
	require.JSONEq(t, `{"answer":"clean","reason":"-"}`, string(e.Output))
}

// What is under way ends when its execution is cancelled, although the model has not answered.
func TestModelStepIsCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, eager))
	trigger := publish(t, tenant, "Slow", `[{"id":"short","type":"summarize","input":"never ends"}]`)
	path := "/v1/executions/" + executionIn(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0"))
	awaitAsked(t, tenant, path)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/cancel", nil).Status)
	e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "cancelled", e.Status)
}

// awaitAsked waits until a model is at work for the first step.
func awaitAsked(t *testing.T, tenant *rig.Tenant, path string) {
	t.Helper()
	rig.Until(t, 3*arriveLimit, "a model is asked", func() bool {
		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
		return len(e.Steps) > 0 && len(e.Steps[0].ModelCalls) > 0 && e.Steps[0].ModelCalls[0].Status == "running"
	})
}
