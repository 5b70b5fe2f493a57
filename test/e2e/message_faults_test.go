package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// faultReplies are the answers of the scripted model to the messages of this file.
var faultReplies = []string{
	`{"purpose":"reply","contains":["See the plum","People have decided"],"text":"The plum is gone."}`,
	`{"purpose":"reply","contains":["See the plum","pending_approval"],` + toolCalls(toolCall("2", "gate__nothing", `{}`)) + `}`,
	`{"purpose":"reply","contains":["See the plum"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"plum"}`)) + `}`,

	`{"purpose":"reply","contains":["See the sloe","People have decided"],"text":"The sloe is gone."}`,
	`{"purpose":"reply","contains":["See the sloe","pending_approval"],"error":"the model is away"}`,
	`{"purpose":"reply","contains":["See the sloe"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"sloe"}`)) + `}`,
	`{"purpose":"reply","contains":["See the medlar","People have decided"],"text":"The medlar is gone."}`,
	`{"purpose":"reply","contains":["See the medlar","pending_approval"],` + toolCalls(toolCall("2", "escalate", `{"reason":"It is delicate."}`)) + `}`,
	`{"purpose":"reply","contains":["See the medlar"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"medlar"}`)) + `}`,

	`{"purpose":"reply","contains":["Keep the quince","And after","\"status\":\"executed\""],"text":"It was made."}`,
	`{"purpose":"reply","contains":["Keep the quince","And after"],"text":"I do not know."}`,
	`{"purpose":"reply","contains":["Keep the quince"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"quince","mode":"hold"}`)) + `}`,

	`{"purpose":"reply","turn":0,"contains":["Count to three"],` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"one"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Count to three"],` + toolCalls(toolCall("2", "gate__get_thing", `{"id":"two"}`)) + `}`,
	`{"purpose":"reply","turn":2,"contains":["Count to three"],` + toolCalls(toolCall("3", "gate__get_thing", `{"id":"three"}`)) + `}`,

	`{"purpose":"reply","turn":0,"contains":["Ask three times"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"one"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Ask three times"],` + toolCalls(toolCall("2", "gate__delete_thing", `{"id":"two"}`)) + `}`,
	`{"purpose":"reply","turn":2,"contains":["Ask three times"],` + toolCalls(toolCall("3", "gate__delete_thing", `{"id":"three"}`)) + `}`,
}

// executionUntil reads an execution until it has the status.
func executionUntil(t *testing.T, tenant *rig.Tenant, id, status string) (e said) {
	t.Helper()
	rig.Until(t, time.Minute, id+" is "+status, func() bool {
		e = saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil), http.StatusOK)
		return e.Status == status
	})
	return e
}

// A message that stopped while a call waited goes on when people have decided, also where it had
// stopped without a further answer of the model, and where that has failed or wants a person.
func TestStoppedMessageAnswersWhatPeopleDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fruit  string
		agent  map[string]any
		status string
		stop   string
	}{
		"loop_detected":        {"plum", nil, "pending_approval", "loop_detected"},
		"max_turns":            {"plum", map[string]any{"limits": map[string]any{"max_turns": 3}}, "pending_approval", "max_turns"},
		"model_error":          {"sloe", nil, "pending_approval", "model_error"},
		"escalated":            {"medlar", nil, "escalated", "escalated"},
		"escalated on failure": {"sloe", map[string]any{"escalation": map[string]any{"on_failure": true}}, "escalated", "model_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tenant := connected(t, stack(t, eager))
			held(t, tenant, "gate:delete_thing")
			path, key := agentOf(t, tenant, c.agent)
			waits := saidOf(t, key.Do(http.MethodPost, path, write("See the "+c.fruit, "s1")), http.StatusOK)
			require.Equal(t, c.status, waits.Status)
			require.Equal(t, c.stop, *waits.Metadata.StopReason)
			require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
			ended := executionUntil(t, tenant, waits.ExecutionID, "completed")
			require.Equal(t, "The "+c.fruit+" is gone.", *ended.Reply)
			require.Len(t, g.of(c.fruit), 1)
		})
	}
}

// A cancel while a call is under way leaves a session in which each call has its result.
func TestCancelledMessageLeavesWhatItsCallsHaveDone(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	path, key := agentOf(t, tenant, nil)
	slow := saidOf(t, key.Do(http.MethodPost, path, write("Keep the quince", "s1"), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, "quince", g.awaitArrival(t))
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+slow.ExecutionID+"/cancel", nil).Status)
	g.open()
	executionUntil(t, tenant, slow.ExecutionID, "cancelled")
	next := saidOf(t, key.Do(http.MethodPost, path, write("And after?", "s1")), http.StatusOK)
	require.Equal(t, "It was made.", *next.Message)

	// A cancel that is refused is no change, so the audit trail has the first one only.
	require.Equal(t, http.StatusConflict, key.Do(http.MethodPost, "/v1/executions/"+slow.ExecutionID+"/cancel", nil).Status)
	var records []struct {
		ExecutionID *string `json:"execution_id"`
	}
	tenant.User.Do(http.MethodGet, "/v1/audit?action=agent.cancelled", nil).Data(t, &records)
	require.Len(t, records, 1)
}

// max_per_turn bounds the calls of a message exactly, and those that wait for people count too.
func TestCallsOfAMessageAreBounded(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	held(t, tenant, "gate:delete_thing")
	path, key := agentOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"gate:*"}, "max_per_turn": 2}})
	counted := saidOf(t, key.Do(http.MethodPost, path, write("Count to three", "")), http.StatusOK)
	require.Equal(t, 2, counted.ActionsExecuted)
	require.Equal(t, []int{1, 1, 0}, []int{len(g.of("one")), len(g.of("two")), len(g.of("three"))})

	asked := saidOf(t, key.Do(http.MethodPost, path, write("Ask three times", "")), http.StatusOK)
	require.Equal(t, "pending_approval", asked.Status)
	var approvals []struct{ ID string }
	tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &approvals)
	require.Len(t, approvals, 2)
}

// The time of a message bounds the answer of its model too.
func TestWallClockEndsAnAnswerOfTheModel(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, eager))
	path, key := agentOf(t, tenant, map[string]any{"limits": map[string]any{"wall_clock": "1s"}})
	slow := saidOf(t, key.Do(http.MethodPost, path, write("think long", "s1")), http.StatusOK)
	require.Equal(t, "wall_clock", *slow.Metadata.StopReason)
	require.NotEqual(t, "So it is.", *slow.Message)
}

// What a message is refused for, in the order of the refusals, and that a refused one changes nothing.
func TestRefusedMessageChangesNothing(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, eager))
	path, key := agentOf(t, tenant, map[string]any{"concurrency": "reject"})
	keyOf := func(mode string) *rig.Client {
		var made rig.Key
		tenant.User.MakeKey(map[string]any{"name": "k", "permissions": []string{"agents:message"}, "identity_mode": mode}).Data(t, &made)
		return tenant.Runtime.With(made.Key, "")
	}
	unknown := "/v1/agents/" + uuid.NewString() + "/message"
	requireCode(t, keyOf("required").Do(http.MethodPost, unknown, write("Hello", "")), http.StatusUnprocessableEntity, "IDENTITY_REQUIRED")
	requireCode(t, key.Do(http.MethodPost, unknown, map[string]any{"message": "Hello", "identity": map[string]any{"email": 1}}), http.StatusBadRequest, "VALIDATION_ERROR")
	requireCode(t, key.Do(http.MethodPost, unknown, write("Hello", "")), http.StatusNotFound, "AGENT_NOT_FOUND")
	requireCode(t, key.Do(http.MethodPost, path, write(strings.Repeat("ü", 16<<10)+"x", "")), http.StatusBadRequest, "VALIDATION_ERROR")
	for _, flag := range []string{"dryRun", "DRY-RUN", "dryly"} {
		body := map[string]any{"message": "Hello", "metadata": map[string]any{flag: true}}
		requireCode(t, key.Do(http.MethodPost, path, body), http.StatusBadRequest, "VALIDATION_ERROR")
	}

	// A message that is refused because another one is answered does not give the session to its customer.
	with := func(text, session, customer string) map[string]any {
		body := write(text, session)
		body["customer_id"] = customer
		return body
	}
	slow := saidOf(t, key.Do(http.MethodPost, path, write("think long", "s1"), "Prefer: wait=0"), http.StatusAccepted)
	requireCode(t, key.Do(http.MethodPost, path, with("Hello", "s1", "first")), http.StatusConflict, "SESSION_BUSY")
	executionUntil(t, tenant, slow.ExecutionID, "completed")
	saidOf(t, key.Do(http.MethodPost, path, with("Hello", "s1", "second")), http.StatusOK)
	requireCode(t, key.Do(http.MethodPost, path, with("Hello", "s1", "first")), http.StatusConflict, "CONFLICT")
	requireCode(t, keyOf("anonymous").Do(http.MethodPost, path, write("Hello", "s1")), http.StatusConflict, "CONFLICT")
	saidOf(t, keyOf("anonymous").Do(http.MethodPost, path, with("Hello", "s2", "second")), http.StatusOK)

	// A repeat is answered although the agent takes no messages now.
	first := saidOf(t, key.Do(http.MethodPost, path, write("Hello", ""), "Idempotency-Key: k"), http.StatusOK)
	a := tenant.User.Do(http.MethodPatch, strings.TrimSuffix(path, "/message"), map[string]any{"status": "paused"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	again := saidOf(t, key.Do(http.MethodPost, path, write("Hello", ""), "Idempotency-Key: k"), http.StatusOK)
	require.Equal(t, []string{first.ExecutionID, "cached"}, []string{again.ExecutionID, again.FenceStatus})
	requireCode(t, key.Do(http.MethodPost, path, write("Other", ""), "Idempotency-Key: k"), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
	requireCode(t, key.Do(http.MethodPost, path, write("Hello", ""), "Idempotency-Key: other"), http.StatusConflict, "CONFLICT")
}
