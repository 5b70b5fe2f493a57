package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// spending are the answers of the scripted model in Maps that use much.
var spending = []string{
	`{"purpose":"summarize","contains":["The damson"],"json":{"summary":"A damson."},"usage":{"input":500,"cached":0,"output":500,"estimated":true}}`,
	`{"purpose":"reply","turn":0,"contains":["Think about the damson"],` + toolCalls(toolCall("1", "start_think_hard", `{}`)) + `,"usage":{"input":5,"cached":0,"output":5}}`,
	`{"purpose":"reply","turn":0,"contains":["Have them think of the damson"],` + toolCalls(toolCall("1", "ask_thinker", `{"message":"Think"}`)) + `,"usage":{"input":5,"cached":0,"output":5}}`,
}

const thinkMap = `{"schema_version":"1","name":"Think hard","steps":[
	{"id":"one","type":"summarize","input":"The damson is ripe."},
	{"id":"two","type":"map","map_id":%q,"wait":true},
	{"id":"three","type":"summarize","input":"The damson is eaten."}],"output":"Thought."}`

// used is what an execution says of what its models have used.
type used struct {
	Status     string
	StopReason *string `json:"stop_reason"`
	TokensUsed int64   `json:"tokens_used"`
	CostMicros int64   `json:"cost_micros"`
	Estimated  bool    `json:"usage_estimated"`
}

func usedBy(t *testing.T, tenant *rig.Tenant, id string) (u used) {
	t.Helper()
	tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil).Data(t, &u)
	return u
}

// publishedMap publishes a Map and returns its id.
func publishedMap(t *testing.T, tenant *rig.Tenant, definition string) string {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(definition))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	return path.Base(a.Header.Get("Location"))
}

// thinking publishes a Map whose three steps use 1,000 tokens each, one of them in a Map within.
func thinking(t *testing.T, tenant *rig.Tenant) string {
	t.Helper()
	within := publishedMap(t, tenant, `{"schema_version":"1","name":"Within","steps":[{"id":"s","type":"summarize","input":"The damson is sweet."}]}`)
	return publishedMap(t, tenant, fmt.Sprintf(thinkMap, within))
}

// What the models of a Map use counts for all messages above it, and ends with their limits.
func TestMapIsBoundByTheMessagesAboveIt(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		_, tenant := connected(t, s)
		id := thinking(t, tenant)
		message, key := agentOf(t, tenant, map[string]any{"maps": []string{id}, "limits": map[string]any{"tokens": 1500}})
		bound := saidOf(t, key.Do(http.MethodPost, message, write("Think about the damson", "")), http.StatusOK)
		require.Equal(t, "token_budget", *bound.Metadata.StopReason)
		require.EqualValues(t, 2010, bound.TokensUsed, "the third step asks no model")
		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+*bound.Metadata.MapExecutionID, nil), http.StatusOK)
		require.Equal(t, "failed", e.Status)
		require.Equal(t, "BUDGET_EXCEEDED", e.Error.Code)
		require.True(t, usedBy(t, tenant, bound.ExecutionID).Estimated, "its Map's models have not reported all")
		require.True(t, usedBy(t, tenant, *bound.Metadata.MapExecutionID).Estimated)

		thinker := agentIDOf(t, tenant, map[string]any{"name": "Thinker", "executionMode": "workflow_only", "map_id": id})
		message, key = agentOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"agent:" + thinker}}, "limits": map[string]any{"tokens": 1500}})
		bound = saidOf(t, key.Do(http.MethodPost, message, write("Have them think of the damson", "")), http.StatusOK)
		require.Equal(t, "token_budget", *bound.Metadata.StopReason)
		require.EqualValues(t, 2010, bound.TokensUsed)
		var asked []said
		tenant.User.Do(http.MethodGet, "/v1/executions?kind=message&agent_id="+thinker, nil).Data(t, &asked)
		require.Len(t, asked, 1)
		require.EqualValues(t, 2000, asked[0].TokensUsed)

		message, key = guidedBy(t, tenant, id, map[string]any{"limits": map[string]any{"tokens": 1500}})
		own := saidOf(t, key.Do(http.MethodPost, message, write("Think", "")), http.StatusOK)
		require.Equal(t, []string{"failed", "map_failed"}, []string{own.Status, *own.Metadata.StopReason})
		require.EqualValues(t, 2000, own.TokensUsed, "its own limit bounds all steps together")
	})
}

// What a Map costs is shown at its message, and counts in the limit of money.
func TestMapIsBoundByTheMoneyOfItsMessage(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	priced := pricedModel(t, tenant)
	id := publishedMap(t, tenant, `{"schema_version":"1","name":"Dear","steps":[
		{"id":"one","type":"agent","goal":"See the fig","tools":["gate:get_thing"],"on_error":"continue"},
		{"id":"two","type":"agent","goal":"See it again","tools":["gate:get_thing"],"on_error":"continue"}],"output":"Seen."}`)
	message, key := guidedBy(t, tenant, id, map[string]any{"models": priced, "limits": map[string]any{"money_micros": 2_000_000}})
	seen := saidOf(t, key.Do(http.MethodPost, message, write("Look", "")), http.StatusOK)
	require.Equal(t, "Seen.", *seen.Message)
	require.Len(t, g.of("fig"), 1, "the second step asks no model")
	of := usedBy(t, tenant, seen.ExecutionID)
	require.EqualValues(t, 2_500_010, of.CostMicros)
	require.EqualValues(t, 1_000_001, of.TokensUsed)
}

// A message that answers a question of its Map is told of what the Map has used since.
func TestWorkflowOnlyMessageCountsWhatItsMapUsesSince(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, split))
	message, key := guided(t, tenant, guidedMap, nil)
	tokens := map[string]int64{}
	var run string
	for _, text := range []string{"A cup please", "large", "blue"} {
		of := saidOf(t, key.Do(http.MethodPost, message, write(text, "s1"), "Prefer: wait=60"), http.StatusOK)
		tokens[of.ExecutionID], run = of.TokensUsed, *of.Metadata.MapExecutionID
	}
	require.Len(t, tokens, 3)
	sum := int64(0)
	for id, said := range tokens {
		require.Positive(t, said)
		require.Equal(t, said, usedBy(t, tenant, id).TokensUsed, "an earlier message counts nothing more")
		sum += said
	}
	require.Equal(t, usedBy(t, tenant, run).TokensUsed, sum)
}
