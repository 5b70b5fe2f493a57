package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/strictmodel"
	"agentruntime/test/rig"
)

// loops are the answers of the scripted model to the tests of this file.
var loops = []string{
	`{"purpose":"sop","contains":["papaya, surely"],"json":{"fits":[{"id":"papaya","reason":"They want a papaya made."}]}}`,
	`{"purpose":"sop","contains":["papaya, never"],"json":{"fits":[]}}`,
	`{"purpose":"sop","contains":["papaya, perhaps"],"error":"no check today"}`,
	`{"purpose":"reply","turn":0,"contains":["Make the papaya"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"papaya"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Make the papaya"],"text":"So far the papaya."}`,

	`{"purpose":"reply","turn":0,"contains":["the guava"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"guava"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["the guava"],"text":"So far the guava."}`,

	`{"purpose":"reply","contains":["What became of the kumquat","The kumquat is gone."],"text":"It is gone, as I said."}`,
	`{"purpose":"reply","contains":["See the kumquat","People have decided"],"text":"The kumquat is gone."}`,
	`{"purpose":"reply","contains":["See the kumquat","Another question"],"text":"The kumquat still waits."}`,
	`{"purpose":"reply","contains":["See the kumquat","pending_approval"],"text":"A person looks at the kumquat."}`,
	`{"purpose":"reply","contains":["See the kumquat"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"kumquat"}`)) + `}`,

	`{"purpose":"reply","contains":["Wo ist die Melone"],"text":"Im Lager."}`,
}

// pricedServer is an entry of MODEL_SERVERS: a model of a known price. It asks for a call with each
// answer, and says that it has read a million tokens.
func pricedServer(tb testing.TB) string {
	tb.Helper()
	server := httptest.NewServer(strictmodel.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","model":"gpt-4o","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"gate__get_thing","arguments":"{\"id\":\"fig\"}"}}]},"finish_reason":"tool_calls"}]}`+"\n\n"+
			`data: {"choices":[],"usage":{"prompt_tokens":1000000,"completion_tokens":1,"total_tokens":1000001}}`+"\n\ndata: [DONE]\n\n")
	}), strictmodel.Print))
	tb.Cleanup(server.Close)
	return "priced=" + server.URL + "/v1"
}

// A model confirms which procedures fit, with its reasons, and only where their words fit. Its tools
// are offered only while a procedure fits. Where the check fails, the words decide.
func TestProceduresAreCheckedByAModel(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	path, key := agentOf(t, tenant, map[string]any{
		"tools": map[string]any{"allow": []string{"gate:get_thing"}},
		"sops": []any{map[string]any{
			"slug": "papaya", "title": "Papayas", "when": "The customer wants a papaya.", "action": "Make it.", "keywords": []string{"papaya"}, "tools": []string{"gate:create_thing"},
		}},
	})
	for _, c := range []struct {
		message, slug, reason string
		checked               bool
		asked, made           int
	}{
		{"Make the papaya, surely", "papaya", "They want a papaya made.", true, 1, 1},
		{"Make the papaya, never", "", "", false, 1, 1},
		{"Make the papaya, perhaps", "papaya", `the message has "papaya"`, false, 1, 2},
		{"Are you there?", "", "", false, 0, 2},
	} {
		one := saidOf(t, key.Do(http.MethodPost, path, write(c.message, "")), http.StatusOK)
		e := one.execution(t, tenant.User)
		asked := 0
		for _, call := range e.ModelCalls {
			if call.Purpose == "sop" {
				asked++
			}
		}
		require.Equal(t, c.asked, asked, c.message)
		require.Len(t, g.of("papaya"), c.made, c.message)
		if c.slug == "" {
			require.Nil(t, one.Metadata.SOPMatched, c.message)
			require.Empty(t, e.SOPs, c.message)
			continue
		}
		require.Equal(t, c.slug, *one.Metadata.SOPMatched, c.message)
		require.Len(t, e.SOPs, 1)
		require.Contains(t, e.SOPs[0].Reason, c.reason)
		require.Equal(t, c.checked, e.SOPs[0].Checked)
	}
}

// pricedModel lets the tenant ask the model of pricedServer, and returns the models of an agent with it.
func pricedModel(t *testing.T, tenant *rig.Tenant) map[string]any {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/model-providers", map[string]any{"slug": "priced", "api": "openai", "private": "priced"})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a = tenant.User.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": "model:priced", "type": "bearer", "data": map[string]string{"token": "priced-token"}, "label": "m"})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	return map[string]any{"worker": map[string]any{"provider": "priced", "model": "gpt-4o"}}
}

// Each reason to stop that other tests do not show.
func TestReasonsToStop(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	tell := func(more map[string]any, text string) said {
		path, key := agentOf(t, tenant, more)
		return saidOf(t, key.Do(http.MethodPost, path, write(text, "")), http.StatusOK)
	}
	poor := tell(map[string]any{"limits": map[string]any{"tokens": 1}}, "See the guava")
	require.Equal(t, "token_budget", *poor.Metadata.StopReason)
	require.Len(t, g.of("guava"), 1)

	priced := pricedModel(t, tenant)
	dear := tell(map[string]any{"models": priced, "limits": map[string]any{"money_micros": 2_000_000}}, "See the fig")
	require.Equal(t, "money_budget", *dear.Metadata.StopReason)
	require.Len(t, g.of("fig"), 1)
	a := tenant.User.Do(http.MethodPut, "/v1/budgets", map[string]any{"model_tokens": nil, "money_micros": 2_000_000, "write_calls": nil})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	dear = tell(map[string]any{"models": priced}, "See the fig")
	require.Equal(t, "money_budget", *dear.Metadata.StopReason)
	require.Len(t, g.of("fig"), 2)

	a = tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
		"name": "no", "verbMatchers": []any{map[string]any{"type": "verb", "value": "gate:create_thing"}}, "action": map[string]any{"type": "block"},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	blocked := tell(nil, "See the guava")
	require.Equal(t, "blocked", *blocked.Metadata.StopReason)
	require.Equal(t, "blocked", blocked.GovernanceStatus)
	require.Len(t, g.of("guava"), 1)

	path, key := agentOf(t, tenant, nil)
	failed := requireCode(t, key.Do(http.MethodPost, path, write("Please break down", "")), http.StatusBadGateway, "MODEL_ERROR")
	e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+failed.Error.ExecutionID, nil), http.StatusOK)
	require.Equal(t, "model_error", *e.StopReason)
	slow := saidOf(t, key.Do(http.MethodPost, path, write("think long", ""), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, http.StatusOK, key.Do(http.MethodPost, "/v1/executions/"+slow.ExecutionID+"/cancel", nil).Status)
	require.Equal(t, "cancelled", *executionUntil(t, tenant, slow.ExecutionID, "cancelled").StopReason)
}

// A session goes to people because of a limit, a failure, and the customer's wish. They read what it is
// about.
func TestAgentEscalatesByItself(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, split))
	events := func() (list []struct{ Kind, Reason, Summary string }) {
		tenant.User.Do(http.MethodGet, "/v1/events?type=escalation.created", nil).Data(t, &list)
		return list
	}
	for i, c := range []struct{ setting, message, stop, reason string }{
		{"on_limit", "Do the circle for order ord_77", "loop_detected", "limit"},
		{"on_failure", "Please break down with order ord_77", "model_error", "failed"},
		{"on_request", "I want to talk to a human about order ord_77", "escalated", "asks for a person"},
	} {
		path, key := agentOf(t, tenant, map[string]any{"escalation": map[string]any{"on_request": c.setting == "on_request", c.setting: true}})
		one := saidOf(t, key.Do(http.MethodPost, path, write(c.message, "s1")), http.StatusOK)
		require.Equal(t, "escalated", one.Status, c.setting)
		require.Equal(t, c.stop, *one.Metadata.StopReason)
		require.Contains(t, *one.Message, "a person")
		if c.setting == "on_request" {
			require.Empty(t, one.execution(t, tenant.User).ModelCalls)
		}
		rig.Until(t, time.Minute, "the event of "+c.setting, func() bool { return len(events()) == i+1 })
		var found bool
		for _, e := range events() {
			if strings.Contains(e.Reason, c.reason) {
				found = true
				require.Equal(t, "session", e.Kind)
				require.Contains(t, e.Summary, "ord_77")
			}
		}
		require.True(t, found, "%s: %v", c.setting, events())
	}
}

// A call is held on Monday. The session is answered three times meanwhile. The call is approved on
// Wednesday, and its end is a reply in the session, which the messages after it know.
func TestCallOfMondayIsAnsweredOnWednesday(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, split))
	held(t, tenant, "gate:delete_thing")
	path, key := agentOf(t, tenant, map[string]any{"memory": map[string]any{"window_messages": 8}})
	monday := saidOf(t, key.Do(http.MethodPost, path, write("See the kumquat", "s1")), http.StatusOK)
	require.Equal(t, "pending_approval", monday.Status)
	require.Equal(t, "pending_approval", *monday.Metadata.StopReason)
	for i := range 3 {
		between := saidOf(t, key.Do(http.MethodPost, path, write(fmt.Sprintf("Another question %d", i), "s1")), http.StatusOK)
		require.Equal(t, "The kumquat still waits.", *between.Message)
	}
	require.Empty(t, g.of("kumquat"))
	require.Equal(t, http.StatusOK, tenant.User.Decide(*monday.ApprovalID, "approve", map[string]any{}).Status)
	wednesday := executionUntil(t, tenant, monday.ExecutionID, "completed")
	require.Equal(t, "The kumquat is gone.", *wednesday.Reply)
	require.Len(t, g.of("kumquat"), 1)
	after := saidOf(t, key.Do(http.MethodPost, path, write("What became of the kumquat?", "s1")), http.StatusOK)
	require.Equal(t, "It is gone, as I said.", *after.Message)
}

// Owners, and nobody else, read what the models have read and wrote. The agent is told the language.
func TestPromptsAreForOwners(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, eager))
	path, key := agentOf(t, tenant, nil)
	const card = "4242 4242 4242 4242"
	one := saidOf(t, key.Do(http.MethodPost, path, write("Wo ist die Melone? Meine Karte ist "+card, "")), http.StatusOK)
	require.Equal(t, "de", *one.Metadata.Language)
	at := "/v1/executions/" + one.ExecutionID
	requireCode(t, key.Do(http.MethodGet, at+"?prompts=true", nil), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	require.Nil(t, saidOf(t, tenant.User.Do(http.MethodGet, at, nil), http.StatusOK).ModelCalls[0].Prompt)
	a := tenant.User.Do(http.MethodGet, at+"?prompts=true", nil)
	prompt := saidOf(t, a, http.StatusOK).ModelCalls[0].Prompt
	require.NotNil(t, prompt)
	require.Contains(t, prompt.Advice, "Answer in German")
	require.Contains(t, prompt.Read[0].Text, "Wo ist die Melone?")
	require.Equal(t, "Im Lager.", prompt.Wrote.Text)
	require.NotContains(t, string(a.Body), card)
}
