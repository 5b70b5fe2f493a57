package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// recalls are the answers of the scripted model to the tests of this file. Where a prompt does not have
// the value that an answer needs, the model fails.
var recalls = []string{
	`{"purpose":"reply","contains":["Fetch it again","pending_approval"],"text":"A person looks at it."}`,
	`{"purpose":"reply","contains":["Fetch it again"],` + toolCalls(toolCall("1", "shelf__get_thing", `{"id":"mango"}`)) + `}`,
	`{"purpose":"summary","contains":["by the model","ZX-81"],"text":"The mango by the model has the code ZX-81 and seven leaves."}`,
	`{"purpose":"summary","contains":["breaks down"],"error":"no summary today"}`,
	`{"purpose":"reply","contains":["What was the code","seven leaves"],"text":"By the model: ZX-81."}`,
	`{"purpose":"reply","contains":["What was the code","ZX-81","A summary of the conversation before"],"text":"It was ZX-81."}`,
	`{"purpose":"reply","contains":["What was the code","ZX-81"],"text":"It was ZX-81, and nothing was summarised."}`,
	`{"purpose":"reply","contains":["What was the code"],"error":"the code is not in the prompt"}`,
	`{"purpose":"reply","contains":["Tell me more"],"text":"There is no more."}`,
	`{"purpose":"reply","turn":1,"contains":["Look the mango up"],"text":"I have found it."}`,
	`{"purpose":"reply","turn":0,"contains":["Look the mango up"],` + toolCalls(toolCall("1", "shelf__get_thing", `{"id":"mango"}`)) + `}`,
}

// shelved connects a tenant to a provider whose result has a value that no customer writes.
func shelved(t *testing.T, s *rig.Stack) *rig.Tenant {
	t.Helper()
	tenant := newTenant(s)
	base := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"mango","code":"ZX-81","note":"`+strings.Repeat("leaf ", 50)+`"}`)
	}))
	tenant.Connect(t, "shelf", base, document(bearer(), operation{method: http.MethodGet, path: "/things", id: "get_thing", args: []string{"id"}}), "bearer", map[string]string{"token": "shelf-token"})
	return tenant
}

// execution reads the execution of a message.
func (s said) execution(t *testing.T, c *rig.Client) (e said) {
	t.Helper()
	return saidOf(t, c.Do(http.MethodGet, "/v1/executions/"+s.ExecutionID, nil), http.StatusOK)
}

// A value from a result of the first message is known in the sixth, when the entries that had it are
// only summarised: by rules, by a model, and by rules where that model fails. A session summarises in
// steps, not with each message.
func TestValueOfTheFirstMessageIsKnownInTheSixth(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	for name, c := range map[string]struct {
		first, summarizer string
		memory            map[string]any
		want              string
		summaries         int
	}{
		"all in the window":             {"Look the mango up", "rules", map[string]any{"window_messages": 40}, "It was ZX-81, and nothing was summarised.", 0},
		"summarised by rules":           {"Look the mango up", "rules", map[string]any{"window_messages": 6}, "It was ZX-81.", 0},
		"summarised by a model":         {"Look the mango up, by the model", "scripted", map[string]any{"window_messages": 6}, "By the model: ZX-81.", 2},
		"by rules when the model fails": {"Look the mango up, it breaks down", "scripted", map[string]any{"window_messages": 6}, "It was ZX-81.", 2},
		"not summarised at all":         {"Look the mango up", "rules", map[string]any{"window_messages": 6, "summarize": false}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tenant := shelved(t, s)
			path, key := agentOf(t, tenant, map[string]any{
				"tools": map[string]any{"allow": []string{"shelf:*"}}, "memory": c.memory,
				"models": map[string]any{"worker": map[string]any{"provider": "builtin", "model": "scripted"}, "summarizer": map[string]any{"provider": "builtin", "model": c.summarizer}},
			})
			var asked int
			tell := func(text string) said {
				one := saidOf(t, key.Do(http.MethodPost, path, write(text, "s1")), http.StatusOK)
				for _, call := range one.execution(t, tenant.User).ModelCalls {
					if call.Purpose == "summary" {
						asked++
						require.Equal(t, c.first != "Look the mango up, it breaks down", call.Status == "completed")
					}
				}
				return one
			}
			require.Equal(t, "I have found it.", *tell(c.first).Message)
			for i := range 4 {
				require.Equal(t, "There is no more.", *tell(fmt.Sprintf("Tell me more %d", i)).Message)
			}
			if c.want == "" {
				requireCode(t, key.Do(http.MethodPost, path, write("What was the code?", "s1")), http.StatusBadGateway, "MODEL_ERROR")
				return
			}
			require.Equal(t, c.want, *tell("What was the code?").Message)
			require.Equal(t, c.summaries, asked)
		})
	}
}

// A session in which the agent has read what others wrote stays tainted when that is only summarised.
func TestSessionStaysTaintedAfterItsSummary(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	tenant := shelved(t, s)
	tenant.User.NewPolicy(t, map[string]any{
		"name": "Tainted", "verbMatchers": []any{map[string]any{"type": "provider", "value": "shelf"}},
		"conditions": []any{map[string]any{"field": "session.tainted", "operator": "equals", "value": true}},
		"action":     map[string]any{"type": "require_approval"},
	})
	for _, summarize := range []bool{true, false} {
		path, key := agentOf(t, tenant, map[string]any{
			"tools": map[string]any{"allow": []string{"shelf:*"}}, "memory": map[string]any{"window_messages": 2, "summarize": summarize},
			"models": map[string]any{"worker": map[string]any{"provider": "builtin", "model": "scripted"}, "summarizer": map[string]any{"provider": "builtin", "model": "rules"}},
		})
		require.Equal(t, 1, saidOf(t, key.Do(http.MethodPost, path, write("Look the mango up", "s1")), http.StatusOK).ActionsExecuted)
		for range 4 {
			require.Equal(t, "There is no more.", *saidOf(t, key.Do(http.MethodPost, path, write("Tell me more", "s1")), http.StatusOK).Message)
		}
		held := saidOf(t, key.Do(http.MethodPost, path, write("Fetch it again", "s1")), http.StatusOK)
		require.Equal(t, "pending_approval", held.Status)
		e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+held.ExecutionID+"?prompts=true", nil), http.StatusOK)
		require.Equal(t, summarize, e.ModelCalls[0].Prompt.Summary != "")
		for _, read := range e.ModelCalls[0].Prompt.Read {
			require.NotContains(t, read.Text, "ZX-81", "what has tainted the session is not read any more")
		}
	}
}
