package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The worker is killed while it streams a reply. What it has streamed becomes void, and the pieces after
// that are the reply.
func TestStreamOfAReplySurvivesItsWorker(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(script, []byte(`[{"text":"One two three four five six.","pause_ms":700}]`), 0o600))
	s := rig.Split(t, rig.SplitOptions{Env: []string{"MODEL_SCRIPT=" + script}})
	tenant := s.NewTenant(rig.Address())
	a := tenant.User.Do(http.MethodPost, "/v1/agents", json.RawMessage(`{"name":"Slow","models":{"worker":{"provider":"builtin","model":"scripted"}}}`))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	key := tenant.User.NewKey(t, "agents:message").Key
	rep := openReply(t, s.APIURL+a.Header.Get("Location")+"/message", key, "", `{"message":"Count"}`)
	require.Equal(t, http.StatusOK, rep.status)

	var event, text, reset string
	var body struct {
		Text, Reason, Message string
	}
	for lines := bufio.NewScanner(rep.body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if name == "event" {
			event = value
		}
		if name != "data" {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(value), &body))
		switch event {
		case "message.delta":
			if text += body.Text; reset == "" && text == body.Text { // the first piece
				s.Kill("worker")
				s.Restart("worker")
			}
		case "message.reset":
			text, reset = "", body.Reason
		}
	}
	require.Equal(t, "message.completed", event)
	require.Equal(t, "restart", reset)
	require.Equal(t, "One two three four five six.", body.Message)
	require.Equal(t, body.Message, text)
}

// streamed is the answer to a message that is read as a stream.
type streamed struct {
	status int
	body   io.ReadCloser
}

// openReply asks for the reply to a message as a stream; after is the last event that was read, "" for
// none. The stream is closed with the test.
func openReply(t *testing.T, url, key, after, body string, headers ...string) streamed {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-API-Key", key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	rep, err := http.DefaultTransport.RoundTrip(req) // it lasts longer than the client of the rig waits
	require.NoError(t, err)
	t.Cleanup(func() { _ = rep.Body.Close() })
	return streamed{rep.StatusCode, rep.Body}
}
