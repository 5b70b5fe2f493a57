package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/strictmodel"
	"agentruntime/test/oracle"
	"agentruntime/test/rig"
)

// Places of a message where a kill would hurt most, with the process that comes there.
var (
	messagePlaces = []string{"turn_answered", "before_turn_reply", "after_turn_reply", "after_claim", "before_sending", "after_sending", "after_response", "after_record"}
	claimPlace    = "after_turn_claim"
)

// talk is many conversations with an agent at once, while processes are killed. Each message leads to a
// call that reads and one that writes, and then to a reply that says how many messages the model has
// read.
type talk struct {
	t        *testing.T
	stack    *rig.Stack
	tenant   *rig.Tenant
	key      *rig.Client
	path     string
	provider *provider
	turns    int
	trap     *trap
	peak     int64
}

// trap stops the first process that comes to the place that is armed, until it is killed.
type trap struct {
	mu     sync.Mutex
	place  string
	passes int // so many come through first
	caught chan struct{}
}

// arm sets the place, and returns what is closed when a process is there.
func (p *trap) arm(place string) <-chan struct{} { return p.armAfter(place, 0) }

// armAfter is arm for the process that comes there after so many others.
func (p *trap) armAfter(place string, passes int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place, p.passes, p.caught = place, passes, make(chan struct{})
	return p.caught
}

// ServeHTTP implements http.Handler: it is the other end of internal/base/failpoint.
func (p *trap) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	caught := p.place != "" && r.URL.Query().Get("point") == p.place
	if caught && p.passes > 0 {
		p.passes--
		caught = false
	}
	if caught {
		p.place = ""
		close(p.caught)
	}
	p.mu.Unlock()
	if caught {
		<-r.Context().Done()
	}
}

// mark is how a message names its conversation and its place there.
var mark = regexp.MustCompile(`conversation-(\d+) message-(\d+)`)

// counting is a model that calls the tools of a message, and then replies with what it has read.
func counting(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var req struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	_ = json.Unmarshal(raw, &req)
	var read []string
	last := ""
	for _, m := range req.Messages {
		last = m.Role
		if m.Role == "user" { // one may have several messages of the customer
			read = append(read, mark.FindAllString(fmt.Sprint(m.Content), -1)...)
		}
	}
	delta, finish := map[string]any{"content": "read " + strings.Join(read, ", ")}, "stop"
	if last == "user" && len(read) > 0 {
		id := strings.ReplaceAll(read[len(read)-1], " ", "-")
		call := func(i int, tool, args string) any {
			return map[string]any{"index": i, "id": id + strconv.Itoa(i), "type": "function", "function": map[string]any{"name": tool, "arguments": args}}
		}
		write := "target__make_keyed"
		if n := mark.FindStringSubmatch(read[len(read)-1])[2]; (n[len(n)-1]-'0')%2 == 1 {
			write = "target__make_effect"
		}
		delta, finish = map[string]any{"tool_calls": []any{
			call(0, "target__read_thing", `{"id":"`+id+`-read"}`), call(1, write, `{"id":"`+id+`","filler":"x"}`),
		}}, "tool_calls"
	}
	answerAs(w, delta, finish)
}

// answerAs writes the answer of a model, of 100 tokens.
func answerAs(w http.ResponseWriter, delta map[string]any, finish string) {
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices []any, usage any) {
		line, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": "counting", "choices": choices, "usage": usage})
		if err != nil {
			panic(err) // it is made of plain values
		}
		fmt.Fprintf(w, "data: %s\n\n", line)
	}
	chunk([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
	chunk([]any{}, map[string]any{"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// newTalk starts the service, with an agent.
func newTalk(t *testing.T, turns int) *talk {
	t.Helper()
	k := newTalkWith(t, counting)
	k.turns = turns
	k.path = k.agent(map[string]any{"limits": map[string]any{"wall_clock": "1h"}, "memory": map[string]any{"window_messages": 500}}) + "/message"
	return k
}

// newTalkWith starts the service, with a model that agents can ask.
func newTalkWith(t *testing.T, answers http.HandlerFunc) *talk {
	t.Helper()
	k := &talk{t: t, trap: &trap{}, provider: startProvider(t, newGate())}
	points := httptest.NewServer(k.trap)
	t.Cleanup(func() { points.CloseClientConnections(); points.Close() })
	model := rig.Serve(t, strictmodel.Server(answers, strictmodel.Print))
	k.stack = rig.Split(t, rig.SplitOptions{Tags: "chaos", Env: []string{"MODEL_SERVERS=counting=" + model, "AGENTRUNTIME_FAILPOINT_URL=" + points.URL}})
	k.tenant = k.stack.NewTenant(rig.Address())
	k.tenant.Connect(t, "target", k.provider.url, document(), "bearer", map[string]string{"token": "a token"})
	a := k.tenant.User.Do(http.MethodPost, "/v1/model-providers", map[string]any{"slug": "own", "api": "openai", "private": "counting"})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a = k.tenant.User.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": "model:own", "type": "bearer", "data": map[string]any{"token": "t"}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	k.key = k.tenant.Runtime.With(k.tenant.User.NewKey(t, "agents:message").Key, "")
	return k
}

// agent makes an agent that asks the model, and returns its path.
func (k *talk) agent(members map[string]any) string {
	k.t.Helper()
	body := map[string]any{
		"name": "Talks", "tools": map[string]any{"allow": []string{"target:*"}}, "models": map[string]any{"worker": map[string]any{"provider": "own", "model": "counting"}},
	}
	maps.Copy(body, members)
	a := k.tenant.User.Do(http.MethodPost, "/v1/agents", body)
	require.Equal(k.t, http.StatusCreated, a.Status, "%s", a.Body)
	return a.Header.Get("Location")
}

// talkLimit is how long all conversations may take. It is what a loaded machine may take, not what it
// does.
const talkLimit = 20 * time.Minute

// spoken is the answer to a message.
type spoken struct {
	ExecutionID string `json:"execution_id"`
	Status      string
	Message     *string
}

// say writes a message until it is answered: again after each failure, under the same key.
func (k *talk) say(conversation, n int, until time.Time) (s spoken, err error) {
	text := fmt.Sprintf("conversation-%d message-%d", conversation, n)
	err = k.ask(k.path, text, map[string]any{"message": text, "session_id": "s" + strconv.Itoa(conversation)}, until, &s)
	return s, err
}

// ask posts until there is an answer: again after each failure, under the same key.
func (k *talk) ask(path, key string, body map[string]any, until time.Time, to any) error {
	for time.Now().Before(until) {
		a := k.key.Do(http.MethodPost, path, body, "Idempotency-Key: "+strings.ReplaceAll(key, " ", "-"), "Prefer: wait=30")
		var e struct{ Data json.RawMessage }
		if a.Err == nil && a.Status == http.StatusOK && json.Unmarshal(a.Body, &e) == nil {
			return json.Unmarshal(e.Data, to)
		}
		if a.Err == nil && a.Status != http.StatusAccepted && a.Status != http.StatusTooManyRequests && a.Status < http.StatusInternalServerError {
			return fmt.Errorf("%s: %d %s", key, a.Status, a.Body)
		}
		pause(k.t.Context(), callPause)
	}
	return fmt.Errorf("%s was not answered", key)
}

// hold has so many conversations, and calls kills meanwhile.
func (k *talk) hold(conversations int, kills func()) {
	k.t.Helper()
	answers := make([][]spoken, conversations)
	failed := make([]error, conversations)
	var wg sync.WaitGroup
	began := time.Now()
	until := began.Add(talkLimit)
	for i := range conversations {
		wg.Go(func() {
			for n := range k.turns {
				s, err := k.say(i, n, until)
				if err != nil {
					failed[i] = err
					return
				}
				answers[i] = append(answers[i], s)
			}
		})
	}
	kills()
	wg.Wait()
	for _, err := range failed {
		require.NoError(k.t, err)
	}
	k.judge(answers)
	k.t.Logf("%d conversations of %d messages took %.0f s, and the worker %d MB at most", conversations, k.turns, time.Since(began).Seconds(), k.peak>>20)
}

// kill kills a process at a place that a message comes to, or at once without one, and starts it again.
func (k *talk) kill(victim, place string) {
	k.t.Helper()
	if place != "" {
		select {
		case <-k.trap.arm(place):
		case <-time.After(time.Minute):
			k.trap.arm("")
			return // no message comes there any more
		}
	}
	k.remember()
	k.stack.Kill(victim)
	k.stack.Restart(victim)
	k.stack.AwaitAPI()
}

// remember notes how much memory the worker has taken.
func (k *talk) remember() { k.peak = max(k.peak, k.stack.Parts["worker"].PeakResident(k.t)) }

// judge says whether each message was answered once, in its order, and each call had its effect once.
func (k *talk) judge(answers [][]spoken) {
	k.t.Helper()
	k.remember()
	replies := map[string]int{}
	for i, list := range answers {
		var read []string
		for n, s := range list {
			text := fmt.Sprintf("conversation-%d message-%d", i, n)
			read = append(read, text)
			require.Equal(k.t, "completed", s.Status, text)
			require.Equal(k.t, "read "+strings.Join(read, ", "), *s.Message, "the model has read all messages before, in their order")
			k.judgeCalls(s, strings.ReplaceAll(text, " ", "-"))
			replies[s.ExecutionID]++
		}
	}
	require.Len(k.t, replies, len(answers)*k.turns, "each message is one execution")
	require.Equal(k.t, replies, k.completed(), "each execution has completed once")
}

// judgeCalls looks at the call of a message that writes.
func (k *talk) judgeCalls(s spoken, id string) {
	k.t.Helper()
	var e struct {
		ModelCalls []struct {
			Calls []struct {
				Verb        string
				ExecutionID string `json:"execution_id"`
			}
		} `json:"model_calls"`
	}
	k.tenant.User.Do(http.MethodGet, "/v1/executions/"+s.ExecutionID, nil).Data(k.t, &e)
	writes := 0
	for _, answer := range e.ModelCalls {
		for _, call := range answer.Calls {
			if call.Verb == verbRead {
				continue
			}
			writes++
			var run struct{ Status string }
			k.tenant.User.Do(http.MethodGet, "/v1/executions/"+call.ExecutionID, nil).Data(k.t, &run)
			_, effects := k.provider.counts(id)
			require.Empty(k.t, oracle.OneEffect(call.ExecutionID, run.Status, true, effects), id)
			require.Contains(k.t, []string{"executed", "outcome_unknown"}, run.Status, id)
		}
	}
	require.Equal(k.t, 1, writes, "%s has one call that writes", id)
}

// completed counts the events conversation.completed of each execution.
func (k *talk) completed() map[string]int {
	k.t.Helper()
	counts := map[string]int{}
	query := "?type=conversation.completed&limit=100"
	for cursor := ""; ; {
		a := k.tenant.User.Do(http.MethodGet, "/v1/events"+query+cursor, nil)
		var list []struct {
			ExecutionID string `json:"execution_id"`
			Data        struct {
				ExecutionID string `json:"execution_id"`
			}
		}
		a.Data(k.t, &list)
		for _, e := range list {
			id := e.ExecutionID
			if id == "" {
				id = e.Data.ExecutionID
			}
			counts[id]++
		}
		var page struct {
			HasMore    bool    `json:"has_more"`
			NextCursor *string `json:"next_cursor"`
		}
		require.NoError(k.t, json.Unmarshal(a.Envelope(k.t).Pagination, &page))
		if !page.HasMore {
			return counts
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// Conversations with calls go on over the death of the worker and of the API, right where it hurts.
func TestConversationsEachPartKilledKeepPromises(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 3)
	k.hold(20, func() {
		k.kill("worker", "after_response")
		k.kill("api", claimPlace)
	})
}
