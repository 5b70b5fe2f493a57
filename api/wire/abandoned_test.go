package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// A call whose caller disconnected is no error of ours: its status in the log is 499, and nothing is
// logged as an error.
func TestCallerWhoDisconnectsIsLoggedAs499(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		leaves bool
		err    error
		status int
		level  string // the highest in the log
	}{
		"a caller who leaves":                   {true, fmt.Errorf("read a row: %w", context.Canceled), 499, "INFO"},
		"a failure of ours that is a cancel":    {false, fmt.Errorf("read a row: %w", context.Canceled), 500, "ERROR"},
		"a failure while the caller leaves":     {true, errors.New("disk full"), 500, "ERROR"},
		"a refusal that a caller does not read": {true, fault.New(fault.CodeNotFound, ""), 404, "INFO"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addresses, err := rate.NewAddresses(rate.AddressConfig{PerMinute: 1000, Loopback: 1000})
			require.NoError(t, err)
			var log bytes.Buffer
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			handler := func(context.Context, *wire.Call) (wire.Reply, error) {
				if tt.leaves {
					leave()
				}
				return wire.Reply{}, tt.err
			}
			w := httptest.NewRecorder()
			wire.Middleware(slog.New(slog.NewJSONHandler(&log, nil)), time.Now, nil, addresses, wire.Respond(handler)).
				ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/me", nil).WithContext(ctx))
			require.Equal(t, tt.status, w.Code)
			highest, status := "INFO", 0
			for d := json.NewDecoder(&log); d.More(); {
				var line struct {
					Level  string
					Msg    string
					Status int
				}
				require.NoError(t, d.Decode(&line))
				if line.Level == "ERROR" {
					highest = line.Level
				}
				if line.Msg == "request" {
					status = line.Status
				}
			}
			require.Equal(t, tt.status, status)
			require.Equal(t, tt.level, highest)
		})
	}
}
