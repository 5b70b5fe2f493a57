package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
	LatencyMS              float64 `json:"latency_ms"`
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
	for _, one := range scripted {
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

// The agent looks, answers too early, is told so, writes, and answers. Each call is a governed run
// of the execution; two calls that cannot be made are not.
func TestAgentCallsVerbsUnderGovernance(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Agent", agentStep("Make the apple, for ${trigger_data.whom}", `,
			"output_schema":{"type":"object","required":["made"]},"max_attempts":2,
			"complete_when":"${any(.calls[]; .verb == \"gate:create_thing\" and .status == \"executed\") and .output.made}"`))
		trigger = strings.ReplaceAll(trigger, "${trigger_data.what}", "apple")
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"what": "apple"}}, "Prefer: wait=60")
		_ = g
		e := mapExecutionOf(t, a, http.StatusOK)
		require.JSONEq(t, `{"made":true}`, string(e.Output))
	})
}
