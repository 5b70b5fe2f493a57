//go:build chaos

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// manyStreams is how many replies a tenant may read at once; see the quota reply_streams.
const manyStreams = 500

// As many replies as a tenant may read at once are streamed. One more is refused. Each second reader
// goes away in the middle and comes back. All read their reply from its beginning to its end.
func TestChaosManyRepliesAreStreamedAtOnce(t *testing.T) { //nolint:paralleltest // it takes the machine
	script := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(script, []byte(`[{"text":"One two three four five six seven eight nine ten.","pause_ms":4000}]`), 0o600))
	s := rig.Split(t, rig.SplitOptions{Env: []string{"MODEL_SCRIPT=" + script}})
	tenant := s.NewTenant(rig.Address())
	a := tenant.User.Do(http.MethodPost, "/v1/agents", json.RawMessage(`{"name":"Slow","models":{"worker":{"provider":"builtin","model":"scripted"}},"limits":{"wall_clock":"10m"}}`))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	url, key := s.APIURL+a.Header.Get("Location")+"/message", tenant.User.NewKey(t, "agents:message").Key
	name := func(i int) string { return fmt.Sprintf("Idempotency-Key: reader-%d", i) }
	body := `{"message":"Count"}`

	open := make([]streamed, manyStreams)
	var opening sync.WaitGroup
	for first := range 10 {
		opening.Go(func() {
			for i := first; i < manyStreams; i += 10 {
				open[i] = openReply(t, url, key, "", body, name(i))
			}
		})
	}
	opening.Wait()
	for i, rep := range open {
		require.Equal(t, http.StatusOK, rep.status, "reader %d", i)
	}
	more := openReply(t, url, key, "", body, "Idempotency-Key: one-more")
	told, err := io.ReadAll(more.body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, more.status, "%s", told)
	require.Contains(t, string(told), "QUOTA_EXCEEDED")

	texts, ends := make([]string, manyStreams), make([]string, manyStreams)
	var reading sync.WaitGroup
	for i, rep := range open {
		reading.Go(func() {
			text, end, last := readReply(rep.body, i%2 == 1)
			texts[i], ends[i] = text, end
			if i%2 == 0 {
				return
			}
			_ = rep.body.Close()
			again := openReply(t, url, key, last, body, name(i))
			rest, end, _ := readReply(again.body, false)
			texts[i], ends[i] = text+rest, end
		})
	}
	reading.Wait()
	for i := range open {
		require.Equal(t, "message.completed", ends[i], "reader %d", i)
		require.Equal(t, "One two three four five six seven eight nine ten.", texts[i], "reader %d", i)
	}
	t.Logf("API %d MB, worker %d MB at most", s.Parts["api"].PeakResident(t)>>20, s.Parts["worker"].PeakResident(t)>>20)
}

// readReply reads a stream to its end, or to its first piece. It returns the text, and the name and the
// id of the last event.
func readReply(r io.Reader, onlyFirst bool) (text, event, id string) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			event = value
		case "id":
			id = value
		case "data":
			var body struct{ Text string }
			if event == "message.delta" && json.Unmarshal([]byte(value), &body) == nil {
				text += body.Text
			}
			if event == "message.delta" && onlyFirst && id != "" {
				return text, event, id
			}
		}
	}
	return text, event, id
}
