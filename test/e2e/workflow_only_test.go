package e2e

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// guiding are the answers of the scripted model to agents of the mode workflow_only: two questions, then a call.
var guiding = []string{
	fixture(0, "Serve the guest", `"json":{"message":"Which size?"}`),
	`{"purpose":"agent","turn":1,"contains":["Serve the guest","\"answer\">\"large\""],"json":{"message":"Which colour?"}}`,
	`{"purpose":"agent","turn":2,"contains":["Serve the guest","\"answer\">\"blue\""],` + toolCalls(toolCall("1", "gate:create_thing", `{"id":"cup"}`)) + `}`,
	fixture(3, "Serve the guest", `"json":{"message":"A large blue cup."}`),
	rules("complete", met("size", "input_2")+","+met("made", "c4_0"), "", "Serve the guest", "c4_0"),
	rules("needs_input", met("size", "input_2"), "Which colour?", "Serve the guest", "input_2"),
	rules("needs_input", "", "Which size?", "Serve the guest"),
}

const guidedMap = `{"schema_version":"1","name":"Serve","steps":[
	{"id":"work","type":"agent","goal":"Serve the guest who says ${trigger_data.message}","output_schema":{"type":"object","required":["message"]},
		"criteria":[{"id":"size","description":"The size is known."},{"id":"made","description":"The cup is made."}]},
	{"id":"next","type":"transform","expr":"${{message: \"Enjoy it, \" + context.session_id}}"}]}`

const removesMap = `{"schema_version":"1","name":"Removes","steps":[{"id":"go","type":"verb","verb":"gate:delete_thing","args":{"id":"plum"}}],"output":{"message":"Gone."}}`

// guided makes an agent of the mode workflow_only with the Map.
func guided(t *testing.T, tenant *rig.Tenant, definition string, more map[string]any) (message string, key *rig.Client) {
	t.Helper()
	return guidedBy(t, tenant, publishedMap(t, tenant, definition), more)
}

// guidedBy makes an agent of the mode workflow_only with the Map of the id.
func guidedBy(t *testing.T, tenant *rig.Tenant, id string, more map[string]any) (message string, key *rig.Client) {
	t.Helper()
	body := map[string]any{"executionMode": "workflow_only", "map_id": id}
	maps.Copy(body, more)
	return agentOf(t, tenant, body)
}

// A message starts the Map. The manager's questions are replies, the next messages answer them, and the
// state of the step is kept. When the Map has ended, the next message starts it again.
func TestWorkflowOnlyAgentAsksAndGoesOn(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		message, key := guided(t, tenant, guidedMap, nil)
		var run string
		for i, c := range []struct{ text, reply, stop string }{
			{"A cup please", "Which size?", "needs_input"},
			{"large", "Which colour?", "needs_input"},
			{"blue", "Enjoy it, s1", "map_completed"},
			{"Another cup", "Which size?", "needs_input"},
		} {
			of := saidOf(t, key.Do(http.MethodPost, message, write(c.text, "s1"), "Prefer: wait=60"), http.StatusOK)
			require.Equal(t, c.reply, *of.Message, c.text)
			require.Equal(t, "completed", of.Status)
			require.Equal(t, c.stop, *of.Metadata.StopReason)
			require.Positive(t, of.TokensUsed)
			require.Equal(t, i == 2, of.ActionsExecuted == 1)
			switch i {
			case 0:
				run = *of.Metadata.MapExecutionID
			case 3:
				require.NotEqual(t, run, *of.Metadata.MapExecutionID)
			default:
				require.Equal(t, run, *of.Metadata.MapExecutionID)
			}
		}
		require.Len(t, g.of("cup"), 1)
		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+run, nil), http.StatusOK)
		require.Equal(t, []string{"needs_input", "needs_input", "complete"}, verdicts(e))
	})
}

// A session has one Map at a time. What it waits for, and how it ends, is the status of the message.
func TestWorkflowOnlyAgentSaysHowItsMapStands(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	g, tenant := connected(t, s)
	held(t, tenant, "gate:delete_thing")
	at := func(of said) string { return *of.Metadata.MapExecutionID }

	message, key := guided(t, tenant, awaitMap, nil)
	runs := saidOf(t, key.Do(http.MethodPost, message, write("Is it ripe?", "s1")), http.StatusOK)
	require.Equal(t, []string{"running", "map_running"}, []string{runs.Status, *runs.Metadata.StopReason})
	busy := key.Do(http.MethodPost, message, write("And now?", "s1"))
	require.Equal(t, http.StatusConflict, busy.Status, "%s", busy.Body)
	require.Contains(t, string(busy.Body), "SESSION_BUSY")
	a := tenant.User.Do(http.MethodPost, "/v1/executions/"+at(runs)+"/signal", map[string]any{"name": "ripe"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Equal(t, "ripe", *settled(t, tenant, runs.ExecutionID, "completed").Reply)

	// Without a session each message starts the Map. Who cancels the message cancels that.
	runs = saidOf(t, key.Do(http.MethodPost, message, write("Is it ripe?", "")), http.StatusOK)
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+runs.ExecutionID+"/cancel", nil).Status)
	settled(t, tenant, runs.ExecutionID, "cancelled")
	require.Eventually(t, func() bool {
		return mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+at(runs), nil), http.StatusOK).Status == "cancelled"
	}, time.Minute, 50*time.Millisecond)

	message, key = guided(t, tenant, removesMap, nil)
	waits := saidOf(t, key.Do(http.MethodPost, message, write("Remove it", "s1")), http.StatusOK)
	require.Equal(t, "pending_approval", waits.Status)
	require.Equal(t, http.StatusConflict, key.Do(http.MethodPost, message, write("Hurry", "s1")).Status)
	require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
	require.Equal(t, "Gone.", *settled(t, tenant, waits.ExecutionID, "completed").Reply)
	require.Len(t, g.of("plum"), 1)

	message, key = guided(t, tenant, `{"schema_version":"1","name":"Fails","steps":[{"id":"no","type":"raise","error":{"code":"NO_WAY","detail":"Card 4242 4242 4242 4242."}}]}`, nil)
	failed := saidOf(t, key.Do(http.MethodPost, message, write("Try", "s1")), http.StatusOK)
	require.Equal(t, []string{"failed", "map_failed"}, []string{failed.Status, *failed.Metadata.StopReason})
	a = tenant.User.Do(http.MethodGet, "/v1/executions/"+failed.ExecutionID, nil)
	require.Contains(t, string(a.Body), `"detail":"Card ***4242."`)

	message, key = guided(t, tenant, `{"schema_version":"1","name":"Asks people","steps":[{"id":"ask","type":"escalate","reason":"Look","wait":true}],"output":"Looked."}`, nil)
	escalated := saidOf(t, key.Do(http.MethodPost, message, write("Help", "s1")), http.StatusOK)
	require.Equal(t, "escalated", escalated.Status)
	a = tenant.User.Do(http.MethodPost, "/v1/executions/"+at(escalated)+"/signal", map[string]any{"name": "handled"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Equal(t, "Looked.", *settled(t, tenant, escalated.ExecutionID, "completed").Reply)

	message, key = guided(t, tenant, `{"schema_version":"1","name":"Wants more","trigger_schema":{"required":["order"]},"steps":[{"id":"n","type":"transform","expr":1}]}`, nil)
	a = key.Do(http.MethodPost, message, write("Go", "s1"))
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
	require.Contains(t, string(a.Body), "INVALID_ARGS")

	message, key = guided(t, tenant, `{"schema_version":"1","name":"Counts","steps":[{"id":"n","type":"transform","expr":"${{n: 1, of: trigger_data.message}}"}]}`, nil)
	a = key.Do(http.MethodPost, message, write("Go", "s1"), "Accept: text/event-stream")
	require.Contains(t, string(a.Body), "event: message.completed")
	require.Contains(t, string(a.Body), `{\"n\":1,\"of\":\"Go\"}`)

	message, key = guided(t, tenant, `{"schema_version":"1","name":"Goes on and on","steps":[{"id":"n","type":"transform","expr":"${\"on\" * 1000000}"}]}`, nil)
	long := saidOf(t, key.Do(http.MethodPost, message, write("Go", "s1")), http.StatusOK)
	require.Len(t, *long.Message, 256<<10, "the reply is the beginning")
	require.True(t, strings.HasSuffix(*long.Message, "ono…"))
}

// Nobody can answer a message that is in no session, so its Map ends where it asks. The session of a Map
// that asks stays.
func TestWorkflowOnlyAgentAsksOnlyInSessions(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	message, key := guided(t, tenant, guidedMap, nil)
	alone := saidOf(t, key.Do(http.MethodPost, message, write("A cup please", "")), http.StatusOK)
	require.Equal(t, []string{"failed", "map_failed"}, []string{alone.Status, *alone.Metadata.StopReason})
	e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+*alone.Metadata.MapExecutionID, nil), http.StatusOK)
	require.Equal(t, "NO_SESSION", e.Error.Code)

	asks := saidOf(t, key.Do(http.MethodPost, message, write("A cup please", "s1")), http.StatusOK)
	var waits struct {
		WaitingFor struct{ Until time.Time } `json:"waiting_for"`
	}
	tenant.User.Do(http.MethodGet, "/v1/executions/"+*asks.Metadata.MapExecutionID, nil).Data(t, &waits)
	require.WithinDuration(t, time.Now().Add(7*24*time.Hour), waits.WaitingFor.Until, time.Hour)
	session := strings.TrimSuffix(message, "/message") + "/sessions/s1"
	refused := requireCode(t, tenant.User.Do(http.MethodDelete, session, nil), http.StatusConflict, "CONFLICT")
	require.Equal(t, *asks.Metadata.MapExecutionID, refused.Error.ExecutionID)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, "/v1/executions/"+refused.Error.ExecutionID+"/cancel", nil).Status)
	require.Eventually(t, func() bool { return tenant.User.Do(http.MethodDelete, session, nil).Status == http.StatusOK }, time.Minute, 50*time.Millisecond)
}
