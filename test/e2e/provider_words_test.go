package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// saying is a provider that answers each call as its argument says.
type saying map[string]func(http.ResponseWriter)

func (s saying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct{ ID string }
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &asked)
	s[asked.ID](w)
}

func says(status int, media, body string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", media)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refusal is the error object, with what the provider said.
type refusal struct {
	Code, Message  string
	FenceStatus    string `json:"fence_status"`
	ProviderStatus int    `json:"provider_status"`
	Retryable      bool
	RetryAfterMS   int64 `json:"retry_after_ms"`
	ProviderError  struct {
		Status        int
		Code, Message string
		Body          json.RawMessage
		Truncated     bool
		RequestID     string `json:"request_id"`
		RetryAfterMS  int64  `json:"retry_after_ms"`
	} `json:"provider_error"`
}

func refusalOf(t *testing.T, a rig.Answer) refusal {
	t.Helper()
	var e struct{ Error refusal }
	require.NoError(t, json.Unmarshal(a.Body, &e), string(a.Body))
	return e.Error
}

func TestRefusalHasTheWordsOfTheProvider(t *testing.T) {
	t.Parallel()
	s := stack(t, "split")
	tenant := newTenant(s)
	cases := map[string]struct {
		answer               func(http.ResponseWriter)
		status               int
		code, message        string
		saidCode, said, body string
		truncated            bool
		requestID            string
		retryAfter           int64
	}{
		"refused": {
			says(400, "application/json", `{"error":{"code":"not_pending","message":"Non-pending order cannot be cancelled.","token":"secret-token"}}`, "Request-Id", "req_7"),
			422, "PROVIDER_REJECTED", "The provider refused the call (400): Non-pending order cannot be cancelled.",
			"not_pending", "Non-pending order cannot be cancelled.", `{"error":{"code":"not_pending","message":"Non-pending order cannot be cancelled.","token":"[masked]"}}`, false, "req_7", 0,
		},
		"problem": {
			says(409, "application/problem+json", `{"type":"about:blank","title":"Conflict","detail":"Paid already","status":409}`, "Retry-After", "7", "CF-Ray", "8f1-FRA"),
			422, "PROVIDER_REJECTED", "The provider refused the call (409): Paid already.",
			"about:blank", "Paid already", `{"type":"about:blank","title":"Conflict","detail":"Paid already","status":409}`, false, "8f1-FRA", 7000,
		},
		"page": {
			says(500, "text/html", "<html><head><title>Oops</title></head><body><p>We are <b>sorry</b></p></body></html>"),
			502, "PROVIDER_ERROR", "The provider failed (500): Oops.", "", "Oops", `"We are sorry"`, true, "", 0,
		},
		"gateway": {
			says(502, "text/plain", "upstream secret-token gone"),
			504, "OUTCOME_UNKNOWN", "", "", "upstream [redacted] gone", `"upstream [redacted] gone"`, false, "", 0,
		},
	}
	provider := saying{}
	for name, c := range cases {
		provider[name] = c.answer
	}
	tenant.Connect(t, "words", rig.Serve(t, provider), faultyDocument(), "bearer", map[string]string{"token": "secret-token"})
	for name, c := range cases {
		id := "words-" + name[:4]
		call := func() rig.Answer {
			return tenant.Runtime.Run("words:create_thing", map[string]any{"id": name}, id)
		}
		first := call()
		require.Equal(t, c.status, first.Status, name)
		var shown struct{ Error refusal }
		tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+id, nil).Data(t, &shown)
		again := refusalOf(t, call())
		require.Equal(t, "cached", again.FenceStatus, name)
		for _, got := range []refusal{refusalOf(t, first), again, shown.Error} {
			require.Equal(t, c.code, got.Code, name)
			if c.message != "" {
				require.Equal(t, c.message, got.Message, name)
			}
			p := got.ProviderError
			require.Equal(t, c.saidCode, p.Code, name)
			require.Equal(t, c.said, p.Message, name)
			require.JSONEq(t, c.body, string(p.Body), name)
			require.Equal(t, c.truncated, p.Truncated, name)
			require.Equal(t, c.requestID, p.RequestID, name)
			require.Equal(t, c.retryAfter, p.RetryAfterMS, name)
			require.Equal(t, c.retryAfter, got.RetryAfterMS, name)
		}
	}
}

// A 429 that outlasts the wait is refused with the provider's words like any other answer. Nothing
// happened, so the name is free, and the same call asks the provider again.
func TestRateLimitHasTheWordsOfTheProvider(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, "split"))
	const most = 4 << 10 // bytes of a body
	long := strings.Repeat("é and more ", most/4)
	words, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": "rate_limit", "message": "Too many orders for secret-token", "token": "abc", "card": "4242 4242 4242 4242", "trace": long,
	}})
	require.NoError(t, err)
	limited := says(http.StatusTooManyRequests, "application/json", string(words), "Retry-After", "600", "X-Request-Id", "req_429")
	var calls atomic.Int32
	provider := saying{"limited": func(w http.ResponseWriter) { calls.Add(1); limited(w) }}
	tenant.Connect(t, "words", rig.Serve(t, provider), faultyDocument(), "bearer", map[string]string{"token": "secret-token"})
	for n := range int32(2) {
		a := tenant.Runtime.Run("words:create_thing", map[string]any{"id": "limited"}, "words-limited")
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
		require.Equal(t, "600", a.Header.Get("Retry-After"))
		require.Equal(t, n+1, calls.Load(), "the name is free")
		var shown struct {
			Status string
			Error  refusal
		}
		tenant.Runtime.Do(http.MethodGet, "/v1/executions/words-limited", nil).Data(t, &shown)
		require.Equal(t, "failed", shown.Status)
		for _, got := range []refusal{refusalOf(t, a), shown.Error} {
			require.Equal(t, "PROVIDER_REJECTED", got.Code)
			require.Equal(t, "The provider's rate limit refused the call (429): Too many orders for [redacted].", got.Message)
			require.Empty(t, got.FenceStatus)
			require.Equal(t, 429, got.ProviderStatus)
			require.True(t, got.Retryable)
			require.EqualValues(t, 600_000, got.RetryAfterMS)
			p := got.ProviderError
			require.Equal(t, 429, p.Status)
			require.Equal(t, "rate_limit", p.Code)
			require.Equal(t, "Too many orders for [redacted]", p.Message)
			require.Equal(t, "req_429", p.RequestID)
			require.EqualValues(t, 600_000, p.RetryAfterMS)
			require.True(t, p.Truncated)
			require.LessOrEqual(t, len(p.Body), most)
			require.Greater(t, len(p.Body), most/2)
			require.True(t, json.Valid(p.Body))
			require.Contains(t, string(p.Body), "[masked]")
			for _, secret := range []string{"secret-token", "abc", "4242 4242"} {
				require.NotContains(t, string(p.Body), secret)
			}
		}
	}
}

// refusals are the answers of the scripted model to agents whose call a provider refuses. Without the
// provider's words in the context there is no second answer to a step.
var refusals = []string{
	fixture(0, "Learn why it is refused", toolCalls(toolCall("1", "words:create_thing", `{"id":"refused"}`))),
	`{"purpose":"agent","turn":1,"contains":["Learn why it is refused","\"provider_error\":{\"status\":409,\"code\":\"not_pending\""],"text":"It was not pending."}`,
	`{"purpose":"reply","turn":0,"contains":["why is it refused"],` + toolCalls(toolCall("1", "words__create_thing", `{"id":"refused"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["why is it refused"],"text":"It was not pending."}`,
}

// A step of a Map, the agent of a step and an agent that answers a message learn what the provider said,
// as a caller does.
func TestMapsAndAgentsHaveTheWordsOfTheProvider(t *testing.T) {
	t.Parallel()
	tenant := newTenant(stack(t, split))
	provider := saying{"refused": says(409, "application/json", `{"error":{"code":"not_pending","message":"Non-pending order cannot be cancelled."}}`, "Request-Id", "req_7")}
	tenant.Connect(t, "words", rig.Serve(t, provider), faultyDocument(), "bearer", map[string]string{"token": "secret-token"})
	const want = `{"status":409,"code":"not_pending","message":"Non-pending order cannot be cancelled.",
		"body":{"error":{"code":"not_pending","message":"Non-pending order cannot be cancelled."}},"request_id":"req_7"}`

	run := func(t *testing.T, name, steps string) json.RawMessage {
		t.Helper()
		a := tenant.Runtime.Do(http.MethodPost, publish(t, tenant, name, steps), map[string]any{}, "Prefer: wait=60")
		return mapExecutionOf(t, a, http.StatusOK).Output
	}
	t.Run("step", func(t *testing.T) {
		t.Parallel()
		output := run(t, "Refused", `[
			{"id":"call","type":"verb","verb":"words:create_thing","args":{"id":"refused"},"catch":[{"errors":["PROVIDER_REJECTED"],"steps":[]}]},
			{"id":"said","type":"transform","expr":"${steps.call.error.provider_error}"}]`)
		require.JSONEq(t, want, string(output))
	})
	t.Run("agent of a step", func(t *testing.T) {
		t.Parallel()
		output := run(t, "Learns", `[{"id":"work","type":"agent","goal":"Learn why it is refused","tools":["words:*"]}]`)
		require.JSONEq(t, `"It was not pending."`, string(output))
	})
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		message, key := agentOf(t, tenant, map[string]any{"tools": map[string]any{"allow": []string{"words:*"}}})
		done := saidOf(t, key.Do(http.MethodPost, message, write("Tell me: why is it refused?", "")), http.StatusOK)
		calls := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+done.ExecutionID+"?prompts=true", nil), http.StatusOK).ModelCalls
		require.Len(t, calls, 2)
		read := calls[1].Prompt.Read
		var told struct {
			Error struct {
				ProviderError json.RawMessage `json:"provider_error"`
			}
		}
		words := strings.TrimSuffix(strings.TrimPrefix(read[len(read)-1].Text, `<data name="result">`), "</data>")
		require.NoError(t, json.Unmarshal([]byte(words), &told), words)
		require.JSONEq(t, want, string(told.Error.ProviderError))
	})
}
