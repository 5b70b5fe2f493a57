package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// said is the answer to a message, and its execution.
type said struct {
	Message, SessionID *string
	ExecutionID        string `json:"execution_id"`
	Status             string
	ActionsExecuted    int     `json:"actions_executed"`
	GovernanceStatus   string  `json:"governance_status"`
	TokensUsed         int64   `json:"tokens_used"`
	ApprovalID         *string `json:"approval_id"`
	StopReason         *string `json:"stop_reason"`
	Reply              *string
	FenceStatus        string `json:"fence_status"`
	Metadata           struct {
		Model      *string
		SOPMatched *string `json:"sop_matched"`
		StopReason *string `json:"stop_reason"`
		Language   *string

		MapExecutionID *string `json:"map_execution_id"`
	}
	SOPs []struct {
		Slug, Reason string
		Checked      bool
	}
	ModelCalls []struct {
		Purpose, Status string
		Finish          *string
		Calls           []struct {
			Verb        string
			ExecutionID string `json:"execution_id"`
		}
		Prompt *struct {
			Advice, Summary string
			Read            []struct{ Role, Text string }
			Wrote           struct {
				Text  string
				Calls []struct{ Name, Args string }
			}
		}
	} `json:"model_calls"`
}

func saidOf(t *testing.T, a rig.Answer, status int) (s said) {
	t.Helper()
	require.Equal(t, status, a.Status, "%s", a.Body)
	a.Data(t, &s)
	return s
}

// replies are the answers of the scripted model to messages. Each test says something of its own.
var replies = []string{
	`{"purpose":"reply","contains":["See the fig","People have decided"],"text":"The fig is gone."}`,
	`{"purpose":"reply","contains":["See the fig","How is it going"],"text":"The fig still waits."}`,
	`{"purpose":"reply","contains":["See the fig","pending_approval"],"text":"A person looks at the fig."}`,
	`{"purpose":"reply","contains":["See the fig"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"fig"}`)) + `}`,

	`{"purpose":"reply","contains":["the kiwi","And now"],"text":"You asked about the kiwi."}`,
	`{"purpose":"reply","turn":1,"contains":["the kiwi"],"text":"Here is the kiwi."}`,
	`{"purpose":"reply","turn":0,"contains":["the kiwi"],"text":"I look.",` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"kiwi"}`), toolCall("2", "gate__create_thing", `{"id":"kiwi"}`)) + `}`,

	`{"purpose":"reply","turn":0,"contains":["the lime"],` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"lime"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["the lime"],` + toolCalls(toolCall("2", "gate__create_thing", `{"id":"lime"}`)) + `}`,
	`{"purpose":"reply","turn":2,"contains":["the lime","pending_approval"],"text":"A person looks at the lime."}`,

	`{"purpose":"reply","contains":["the loop"],` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"loop"}`)) + `}`,
	`{"purpose":"reply","contains":["the circle"],` + toolCalls(toolCall("1", "gate__nothing", `{}`)) + `}`,
	`{"purpose":"reply","contains":["ask a person"],` + toolCalls(toolCall("1", "escalate", `{"reason":"It is delicate."}`)) + `}`,
	`{"purpose":"reply","contains":["Are you there"],"text":"Good day."}`,
	`{"purpose":"reply","contains":["think long"],"text":"So it is.","delay_ms":3000}`,
	`{"purpose":"reply","contains":["word by word"],"text":"One two three four five six seven eight nine ten.","pause_ms":150}`,
	`{"purpose":"reply","contains":["begin and fail"],"text":"It begins and then","pause_ms":120,"error":"the connection broke"}`,
	`{"purpose":"reply","turn":0,"contains":["the plum"],"text":"I look at it first, for you.","pause_ms":60,` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"plum"}`), toolCall("2", "gate__create_thing", `{"id":"plum"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["the plum"],"text":"Here is the plum."}`,
	`{"purpose":"reply","contains":["break down"],"error":"the model is away"}`,
	`{"purpose":"reply","text":"Good day."}`,
}

// agentOf makes an agent of the scripted model that may call the verbs of gate, and a key for it.
func agentOf(t *testing.T, tenant *rig.Tenant, more map[string]any) (path string, key *rig.Client) {
	t.Helper()
	body := map[string]any{
		"name": "Helper", "instructions": "Help.", "tools": map[string]any{"allow": []string{"gate:*"}},
		"models": map[string]any{"worker": map[string]any{"provider": "builtin", "model": "scripted"}},
	}
	maps.Copy(body, more)
	a := tenant.User.Do(http.MethodPost, "/v1/agents", body)
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var made struct{ ID string }
	a.Data(t, &made)
	return "/v1/agents/" + made.ID + "/message", tenant.Runtime.With(tenant.User.NewKey(t, "agents:message").Key, "")
}

func write(text, session string) map[string]any {
	body := map[string]any{"message": text}
	if session != "" {
		body["session_id"] = session
	}
	return body
}

// An agent calls verbs, each a governed run of the message's execution, and remembers what was said in
// the session and in no other.
func TestAgentAnswersWithCallsAndRemembers(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		path, key := agentOf(t, tenant, nil)
		first := saidOf(t, key.Do(http.MethodPost, path, write("Make the kiwi", "s1")), http.StatusOK)
		require.Equal(t, "Here is the kiwi.", *first.Message)
		require.Equal(t, "completed", first.Status)
		require.Equal(t, 2, first.ActionsExecuted)
		require.Equal(t, "final_answer", *first.Metadata.StopReason)
		require.Len(t, g.of("kiwi"), 2)

		e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+first.ExecutionID, nil), http.StatusOK)
		require.Len(t, e.ModelCalls, 2)
		require.Len(t, e.ModelCalls[0].Calls, 2)
		require.Equal(t, "gate:create_thing", e.ModelCalls[0].Calls[1].Verb)
		run := tenant.User.Do(http.MethodGet, "/v1/executions/"+e.ModelCalls[0].Calls[1].ExecutionID, nil)
		require.Equal(t, http.StatusOK, run.Status, "%s", run.Body)
		require.Contains(t, string(run.Body), `"session_id":"s1"`)

		again := saidOf(t, key.Do(http.MethodPost, path, write("And now?", "s1")), http.StatusOK)
		require.Equal(t, "You asked about the kiwi.", *again.Message)
		for _, session := range []string{"s2", ""} {
			other := saidOf(t, key.Do(http.MethodPost, path, write("And now?", session)), http.StatusOK)
			require.Equal(t, "Good day.", *other.Message, session)
		}
		another, _ := agentOf(t, tenant, nil)
		require.Equal(t, "Good day.", *saidOf(t, key.Do(http.MethodPost, another, write("And now?", "s1")), http.StatusOK).Message, "the same text names another session there")
		a := tenant.User.Do(http.MethodGet, "/v1/executions?kind=message&session_id=s1", nil)
		var list []said
		a.Data(t, &list)
		require.Len(t, list, 3)
	})
}

// A message has at most 32,768 bytes, of which a letter may take several.
func TestMessageHasABoundedSize(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	for text, status := range map[string]int{
		"": http.StatusBadRequest, strings.Repeat("a", 32_768): http.StatusOK, strings.Repeat("a", 32_769): http.StatusBadRequest,
		strings.Repeat("é", 16_384): http.StatusOK, strings.Repeat("é", 16_384) + "a": http.StatusBadRequest,
	} {
		a := key.Do(http.MethodPost, path, write(text, ""))
		require.Equal(t, status, a.Status, "%d bytes: %s", len(text), a.Body)
		if status != http.StatusOK {
			require.Equal(t, "VALIDATION_ERROR", a.Code(t))
		}
	}
}

// A call that waits for people frees the session: another message is answered meanwhile. When they
// have decided, the message has another reply, and the call its effect once.
func TestHeldCallOfAnAgentIsAnsweredLater(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		held(t, tenant, "gate:delete_thing")
		path, key := agentOf(t, tenant, nil)
		waits := saidOf(t, key.Do(http.MethodPost, path, write("See the fig", "s1")), http.StatusOK)
		require.Equal(t, "pending_approval", waits.Status)
		require.Equal(t, "A person looks at the fig.", *waits.Message)
		require.NotNil(t, waits.ApprovalID)
		require.Empty(t, g.of("fig"))

		meanwhile := saidOf(t, key.Do(http.MethodPost, path, write("How is it going?", "s1")), http.StatusOK)
		require.Equal(t, "The fig still waits.", *meanwhile.Message)

		require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
		var ended said
		require.Eventually(t, func() bool {
			ended = saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+waits.ExecutionID, nil), http.StatusOK)
			return ended.Status == "completed"
		}, time.Minute, 50*time.Millisecond)
		require.Equal(t, "The fig is gone.", *ended.Reply)
		require.Equal(t, 1, ended.ActionsExecuted)
		require.Len(t, g.of("fig"), 1)

		// The events of the session: one for each reply.
		require.Eventually(t, func() bool {
			a := tenant.User.Do(http.MethodGet, "/v1/events?type=conversation.completed", nil)
			var events []struct{ ID string }
			a.Data(t, &events)
			return len(events) == 3
		}, time.Minute, 50*time.Millisecond)
	})
}

// The messages of a session are answered one after the other. The same Idempotency-Key is one
// message, however often it is written at once.
func TestMessagesOfASessionTakeTurns(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			a := key.Do(http.MethodPost, path, write("Hello", "s1"), "Idempotency-Key: k"+strconv.Itoa(i%2))
			if a.Status == http.StatusOK || a.Status == http.StatusAccepted {
				var one struct {
					Data said
				}
				if json.Unmarshal(a.Body, &one) == nil {
					ids[i] = one.Data.ExecutionID
				}
			}
		})
	}
	wg.Wait()
	for i := range ids {
		require.NotEmpty(t, ids[i])
		require.Equal(t, ids[i%2], ids[i])
	}
	require.NotEqual(t, ids[0], ids[1])
	a := key.Do(http.MethodPost, path, write("Another", "s1"), "Idempotency-Key: k0")
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)

	// A message that takes longer than its caller waits goes on. Another one waits for it.
	slow := saidOf(t, key.Do(http.MethodPost, path, write("think long", "s2"), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, "running", slow.Status)
	next := saidOf(t, key.Do(http.MethodPost, path, write("Are you there?", "s2")), http.StatusOK)
	require.Equal(t, "Good day.", *next.Message)
	slow = saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+slow.ExecutionID, nil), http.StatusOK)
	require.Equal(t, "completed", slow.Status)
	require.Equal(t, "So it is.", *slow.Reply)

	// One that is cancelled ends, also while its model thinks, and the next one is answered.
	slow = saidOf(t, key.Do(http.MethodPost, path, write("think long", "s3"), "Prefer: wait=0"), http.StatusAccepted)
	waiting := saidOf(t, key.Do(http.MethodPost, path, write("Are you there?", "s3"), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+slow.ExecutionID+"/cancel", nil).Status)
	require.Eventually(t, func() bool {
		return saidOf(t, key.Do(http.MethodGet, "/v1/executions/"+slow.ExecutionID, nil), http.StatusOK).Status == "cancelled" &&
			saidOf(t, key.Do(http.MethodGet, "/v1/executions/"+waiting.ExecutionID, nil), http.StatusOK).Status == "completed"
	}, time.Minute, 50*time.Millisecond)
}

// An agent stops where it goes in circles, where it wants a person, and where its model fails.
func TestAgentStops(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := connected(t, s)
	path, key := agentOf(t, tenant, map[string]any{"sops": []any{map[string]any{
		"slug": "delicate", "title": "Delicate things", "when": "Somebody wants to ask a person", "action": "Hand over.", "keywords": []string{"person"}, "enabled": true,
	}}})
	loop := saidOf(t, key.Do(http.MethodPost, path, write("Do the loop", "")), http.StatusOK)
	require.Equal(t, "max_turns", *loop.Metadata.StopReason)
	require.Len(t, g.of("loop"), 9) // the tenth answer was to be the last
	circle := saidOf(t, key.Do(http.MethodPost, path, write("Do the circle", "")), http.StatusOK)
	require.Equal(t, "loop_detected", *circle.Metadata.StopReason)
	require.Zero(t, circle.ActionsExecuted)

	person := saidOf(t, key.Do(http.MethodPost, path, write("I want to ask a person", "s1")), http.StatusOK)
	require.Equal(t, "escalated", person.Status)
	require.Equal(t, "delicate", *person.Metadata.SOPMatched)

	a := key.Do(http.MethodPost, path, write("Please break down", ""), "Idempotency-Key: broken")
	require.Equal(t, http.StatusBadGateway, a.Status, "%s", a.Body)
	require.Contains(t, string(a.Body), "MODEL_ERROR")
	a = key.Do(http.MethodPost, path, write("Hello", ""), "Idempotency-Key: broken") // the key is free again
	require.Equal(t, "Good day.", *saidOf(t, a, http.StatusOK).Message)
}

// holdTainted makes a policy: what a tainted session calls is held.
func holdTainted(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	tenant.User.NewPolicy(t, map[string]any{
		"name": "Tainted", "verbMatchers": []any{map[string]any{"type": "provider", "value": "gate"}},
		"conditions": []any{map[string]any{"field": "session.tainted", "operator": "equals", "value": true}},
		"action":     map[string]any{"type": "require_approval"},
	})
}

// What an agent does after it has read what others wrote can be held by a policy.
func TestPolicyHoldsWritesOfTaintedSessions(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := connected(t, s)
	holdTainted(t, tenant)
	path, key := agentOf(t, tenant, nil)
	clean := saidOf(t, key.Do(http.MethodPost, path, write("Make the kiwi", "s1")), http.StatusOK)
	require.Equal(t, 2, clean.ActionsExecuted)
	tainted := saidOf(t, key.Do(http.MethodPost, path, write("Taste the lime", "s2")), http.StatusOK)
	require.Equal(t, "pending_approval", tainted.Status)
	require.Equal(t, "A person looks at the lime.", *tainted.Message)
	require.Len(t, g.of("lime"), 1)
}
