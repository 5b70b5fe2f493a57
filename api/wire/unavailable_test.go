package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
)

// Every refusal that a repeat may get past says when to repeat the call, those for an engine, a database or
// a KMS that cannot be reached among them.
func TestUnavailableServiceSaysWhenToRepeatTheCall(t *testing.T) {
	t.Parallel()
	refusal := func(code fault.Code, retryable bool, after time.Duration) error {
		f := fault.New(code, "").Because(errors.New("connection refused"))
		f.Retryable, f.RetryAfter = retryable, after
		return f
	}
	for name, tt := range map[string]struct {
		err    error
		status int
		header string
		ms     int64
	}{
		"without a time of its own": {refusal(fault.CodeServiceUnavailable, true, 0), 503, "5", 5000},
		"with a time of its own":    {refusal(fault.CodeServiceUnavailable, true, time.Second), 503, "1", 1000},
		"that a repeat meets again": {refusal(fault.CodeServiceUnavailable, false, 0), 503, "", 0},
		"another code":              {refusal(fault.CodeProviderError, true, 0), 502, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addresses, err := rate.NewAddresses(rate.AddressConfig{PerMinute: 1000, Loopback: 1000})
			require.NoError(t, err)
			before := *fault.As(tt.err)
			w := httptest.NewRecorder()
			handler := func(context.Context, *wire.Call) (wire.Reply, error) { return wire.Reply{}, tt.err }
			wire.Middleware(slog.New(slog.DiscardHandler), time.Now, nil, addresses, wire.Respond(handler)).
				ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/me", nil))
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, tt.header, w.Header().Get("Retry-After"))
			var body struct {
				Error struct {
					RetryAfterMS int64 `json:"retry_after_ms"`
				}
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			require.Equal(t, tt.ms, body.Error.RetryAfterMS)
			require.Equal(t, before, *fault.As(tt.err), "callers may share the fault")
		})
	}
}
