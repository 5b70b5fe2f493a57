package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// readReply asks for the reply to a message as a stream.
func readReply(t *testing.T, c *rig.Client, path string, body map[string]any, headers ...string) *followed {
	t.Helper()
	f, status, kind := openStream(t, c, path, body, headers...)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/event-stream", kind)
	return f
}

// openStream asks for the reply as a stream. It returns the status and the type of what comes.
func openStream(t *testing.T, c *rig.Client, path string, body map[string]any, headers ...string) (f *followed, status int, kind string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*arriveLimit)
	t.Cleanup(stop)
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+path, bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set("X-API-Key", c.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	rep, err := c.HTTP.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rep.Body.Close() })
	return &followed{t, bufio.NewScanner(rep.Body), stop, rep.Header.Get("Location")}, rep.StatusCode, rep.Header.Get("Content-Type")
}

// rest reads a stream to its end. The ids count up.
func (f *followed) rest() (all []message) {
	f.t.Helper()
	last := 0
	for {
		m, ok := f.next()
		if !ok {
			return all
		}
		id, err := strconv.Atoi(m.id)
		require.NoError(f.t, err)
		require.Greater(f.t, id, last)
		last = id
		all = append(all, m)
	}
}

// textOf returns the text since the last reset, and how often there was one.
func textOf(t *testing.T, all []message) (text string, resets []string) {
	t.Helper()
	for _, m := range all {
		var body struct {
			Text, Reason string
			Attempt      int
		}
		switch m.event {
		case "message.delta":
			require.NoError(t, json.Unmarshal([]byte(m.data), &body))
			text += body.Text
		case "message.reset":
			require.NoError(t, json.Unmarshal([]byte(m.data), &body))
			text, resets = "", append(resets, body.Reason)
			require.Equal(t, len(resets)+1, body.Attempt)
		}
	}
	return text, resets
}

func namesOf(all []message) (names []string) {
	for _, m := range all {
		if n := len(names); m.event != "message.delta" || n == 0 || names[n-1] != m.event {
			names = append(names, m.event)
		}
	}
	return names
}

// completed returns the data of the end.
func completed(t *testing.T, all []message) (s said) {
	t.Helper()
	end := all[len(all)-1]
	require.Equal(t, "message.completed", end.event, end.data)
	require.NoError(t, json.Unmarshal([]byte(end.data), &s))
	return s
}

// A reply comes word by word, and its end is what the call without a stream answers. One who went
// away, or comes late, reads the same at another process.
func TestReplyIsStreamedAndResumed(t *testing.T) {
	t.Parallel()
	stack(t, split)
	apis := sharedSplit()
	_, tenant := connected(t, apis.first.For(t))
	path, key := agentOf(t, tenant, nil)
	other := *key
	other.Base = apis.second.APIURL
	body := write("Say it word by word", "s1")
	f := readReply(t, key, path, body, "Idempotency-Key: words")
	execution := f.location
	first := f.until("message.delta")
	f.stop() // the reader is gone, and the turn goes on

	require.NotEmpty(t, execution)
	resumed := follow(t, &other, execution+"/stream", first[0].id).rest()
	all := append(first, resumed...)
	text, resets := textOf(t, all)
	require.Empty(t, resets)
	end := completed(t, all)
	require.Equal(t, "One two three four five six seven eight nine ten.", *end.Message)
	require.Equal(t, *end.Message, text)
	require.Greater(t, len(all), 3, "it came at once")

	again := readReply(t, &other, path, body, "Idempotency-Key: words").rest()
	whole, _ := textOf(t, again)
	require.Equal(t, text, whole)
	require.Equal(t, "cached", completed(t, again).FenceStatus)
	require.Equal(t, end.ExecutionID, completed(t, again).ExecutionID)
	after := readReply(t, key, path, body, "Idempotency-Key: words", "Last-Event-ID: "+again[len(again)-1].id).rest()
	require.Len(t, after, 1)
	completed(t, after)

	// Users read it masked, as a whole; other keys not at all.
	seen := follow(t, tenant.User, execution+"/stream", "").rest()
	require.Equal(t, []string{"message.completed"}, namesOf(seen))
	stranger := tenant.Runtime.With(tenant.User.NewKey(t, "agents:message").Key, "")
	require.Equal(t, http.StatusNotFound, stranger.Do(http.MethodGet, execution+"/stream", nil).Status)
	foreign := newTenant(apis.first.For(t))
	require.Equal(t, http.StatusNotFound, foreign.Runtime.Do(http.MethodGet, execution+"/stream", nil).Status)
}

// What an agent does is streamed too. Text that turns out to come before calls is void.
func TestCallsOfAnAgentAreStreamed(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		_, tenant := connected(t, s)
		held(t, tenant, "gate:delete_thing")
		path, key := agentOf(t, tenant, nil)
		all := readReply(t, key, path, write("Make the plum", "")).rest()
		end := completed(t, all)
		text, resets := textOf(t, all)
		require.Equal(t, *end.Message, text)
		require.Equal(t, []string{"tool_calls"}, resets)
		calls := map[string][]string{}
		for _, m := range all {
			var body struct {
				CallID      string `json:"call_id"`
				Verb        string
				Status      string
				ExecutionID string `json:"execution_id"`
			}
			if strings.HasPrefix(m.event, "tool.") {
				require.NoError(t, json.Unmarshal([]byte(m.data), &body))
				calls[body.Verb+" "+body.CallID] = append(calls[body.Verb+" "+body.CallID], m.event+body.Status)
				if m.event == "tool.finished" {
					require.Equal(t, "executed", executionOf(t, tenant.User, body.ExecutionID).Status)
				}
			}
		}
		require.Equal(t, map[string][]string{
			"gate:get_thing answers/0/calls/0":    {"tool.started", "tool.finishedexecuted"},
			"gate:create_thing answers/0/calls/1": {"tool.started", "tool.finishedexecuted"},
		}, calls)

		waits := readReply(t, key, path, write("See the fig", "")).rest()
		end = completed(t, waits)
		require.Equal(t, "pending_approval", end.Status)
		require.Equal(t, []string{"tool.started", "approval.requested", "message.delta", "message.completed"}, namesOf(waits))
		require.JSONEq(t, `{"approval_id":"`+*end.ApprovalID+`"}`, waits[1].data)
	})
}

// Where a model fails after it has begun, what it said is void. Where all fail, so is the message.
func TestStreamOfAModelThatFails(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, map[string]any{"models": map[string]any{"worker": map[string]any{
		"provider": "builtin", "model": "scripted", "fallback": []any{map[string]any{"provider": "builtin", "model": "rules"}},
	}}})
	all := readReply(t, key, path, write("Please begin and fail", "")).rest()
	text, resets := textOf(t, all)
	require.Equal(t, []string{"fallback"}, resets)
	require.Equal(t, *completed(t, all).Message, text)

	path, key = agentOf(t, tenant, nil)
	all = readReply(t, key, path, write("Please begin and fail", "")).rest()
	end := all[len(all)-1]
	require.Equal(t, "error", end.event)
	var body struct {
		Code, RequestID, Status string
		ExecutionID             string `json:"execution_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(end.data), &body))
	require.Equal(t, "MODEL_ERROR", body.Code)
	require.NotEmpty(t, body.RequestID)
	require.Equal(t, "failed", body.Status)

	// A refusal is no stream.
	_, status, kind := openStream(t, key, path, map[string]any{"message": ""})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, kind, "application/json")
	locked := tenant.Runtime.With(tenant.User.NewKey(t, "agents:message").Key, "")
	_, status, _ = openStream(t, locked, "/v1/agents/0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a96/message", write("Hello", ""))
	require.Equal(t, http.StatusNotFound, status)
}

// Readers that do not read, or are too many, change nothing for the message.
func TestReadersDoNotHoldAMessage(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	gone, _, _ := openStream(t, key, path, write("Say it word by word", ""), "Idempotency-Key: slow")
	for range 3 { // they never read
		openStream(t, key, path, write("Say it word by word", ""), "Idempotency-Key: slow")
	}
	gone.stop()
	a := key.Do(http.MethodPost, path, write("Say it word by word", ""), "Idempotency-Key: slow")
	require.Equal(t, "One two three four five six seven eight nine ten.", *saidOf(t, a, http.StatusOK).Message)
}
