package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/record/event"
)

// queue writes an event of the site's tenant.
func (s *site) queue(t *testing.T, name string) {
	t.Helper()
	b := &db.Batch{}
	event.Queue(b, event.Event{TenantID: s.tenant, About: event.About{SessionID: name}, Body: event.Revoked{APIKeyID: name}})
	require.NoError(t, s.db.Send(t.Context(), s.tenant, b))
}

// emit writes an event and waits until it can be read.
func (s *site) emit(t *testing.T, name string) {
	t.Helper()
	s.queue(t, name)
	require.Eventually(t, func() bool {
		return strings.Contains(s.do(t, "user", http.MethodGet, "/v1/events?session_id="+name, "").body, name)
	}, time.Minute, 2*time.Millisecond)
}

func TestEventsAreReadInBothOrders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 3 {
		s.emit(t, fmt.Sprint("e", i))
	}
	page := func(path string) (names []string, next string) {
		a := s.do(t, "user", http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, a.status, a.body)
		var data []struct {
			APIKeyID string `json:"api_key_id"`
		}
		require.NoError(t, json.Unmarshal(a.data, &data))
		for _, e := range data {
			names = append(names, e.APIKeyID)
		}
		var p struct {
			NextCursor *string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal(a.pagination, &p))
		if p.NextCursor != nil {
			next = *p.NextCursor
		}
		return names, next
	}
	names, next := page("/v1/events?limit=2")
	require.Equal(t, []string{"e2", "e1"}, names)
	names, next = page("/v1/events?limit=2&cursor=" + next)
	require.Equal(t, []string{"e0"}, names)
	require.Empty(t, next)

	names, next = page("/v1/events?order=asc")
	require.Equal(t, []string{"e0", "e1", "e2"}, names)
	names, next = page("/v1/events?order=asc&cursor=" + next)
	require.Empty(t, names)
	s.emit(t, "e3")
	names, next = page("/v1/events?order=asc&cursor=" + next)
	require.Equal(t, []string{"e3"}, names)
	require.Equal(t, http.StatusBadRequest, s.do(t, "user", http.MethodGet, "/v1/events?order=asc&type=key.revoked&cursor="+next, "").status)
	require.Equal(t, "[]", string(s.do(t, "foreign", http.MethodGet, "/v1/events", "").data))
}

func TestEventIsSentAndRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const body = `{"id":"one","type":"custom.a","data":{"n":1}}`
	a := s.do(t, "sender", http.MethodPost, "/v1/events", body)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	again := s.do(t, "sender", http.MethodPost, "/v1/events", body)
	require.Equal(t, http.StatusOK, again.status, again.body)
	require.JSONEq(t, string(a.data), string(again.data))
	for _, path := range []string{a.header.Get("Location"), "/v1/events/one"} {
		read := s.do(t, "user", http.MethodGet, path, "")
		require.JSONEq(t, string(a.data), string(read.data))
		require.NotEmpty(t, read.header.Get("ETag"))
		require.Equal(t, http.StatusNotFound, s.do(t, "foreign", http.MethodGet, path, "").status)
	}
	for bad, path := range map[string]string{
		`{"type":"custom.a"}`:                         "/id",
		`{"id":"a b","type":"custom.a"}`:              "/id",
		`{"id":"evt_1","type":"custom.a"}`:            "/id",
		`{"id":"a","type":"action.executed"}`:         "/type",
		`{"id":"a","type":"custom."}`:                 "/type",
		`{"id":"a","type":"custom.a","data":[]}`:      "/data",
		`{"id":"a","type":"custom.a","when":1}`:       "/when",
		`{"id":"a","type":"custom.a","correlate":""}`: "/correlate",
		`{"id":"a","type":"custom.a","data":{"x":"` + strings.Repeat("y", event.MostData) + `"}}`: "/data",
	} {
		a := s.do(t, "sender", http.MethodPost, "/v1/events", bad)
		require.Equal(t, http.StatusBadRequest, a.status, a.body)
		require.Equal(t, []string{path}, a.paths, bad)
	}
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", s.do(t, "sender", http.MethodPost, "/v1/events", `{"id":"one","type":"custom.a","data":{"n":2}}`).code)
}

func TestEventTypesHaveSchemaAndExample(t *testing.T) {
	t.Parallel()
	a := newSite(t).do(t, "user", http.MethodGet, "/v1/webhooks/event-types", "")
	var types []struct{ Type, Description string }
	require.NoError(t, json.Unmarshal(a.data, &types))
	require.Len(t, types, len(event.Types()))
	for i, spec := range event.Types() {
		require.Equal(t, string(spec.Type), types[i].Type)
		require.NotEmpty(t, types[i].Description)
	}
}

// listening is an open stream.
type listening struct {
	t      *testing.T
	lines  *bufio.Reader
	status int
	header http.Header
}

// listen opens a stream on a real connection.
func (s *site) listen(t *testing.T, as, path, last string) *listening {
	t.Helper()
	srv := httptest.NewServer(s.server)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		srv.Close()
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil)
	require.NoError(t, err)
	if s.keys[as] {
		r.Header.Set("X-API-Key", as)
	} else {
		r.Header.Set("Authorization", "Bearer "+as)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	rep, err := srv.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rep.Body.Close() })
	return &listening{t, bufio.NewReader(rep.Body), rep.StatusCode, rep.Header}
}

// message returns the fields of the next message.
func (l *listening) message() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	for {
		line, err := l.lines.ReadString('\n')
		require.NoError(l.t, err)
		if line == "\n" {
			return out
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		out[name] = value
	}
}

func TestStreamSendsWhatComesAndContinues(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	go s.events.Poll(t.Context())
	s.emit(t, "before")
	live := s.listen(t, "user", "/v1/events/stream?type=key.*", "")
	require.Equal(t, "text/event-stream", live.header.Get("Content-Type"))
	require.NotEmpty(t, live.header.Get("X-Request-Id"))
	require.Equal(t, map[string]string{"retry": "2000"}, live.message())
	s.emit(t, "first")
	first := live.message()
	require.Equal(t, "key.revoked", first["event"])
	require.Contains(t, first["data"], `"api_key_id":"first"`)
	s.emit(t, "second")
	second := live.message()
	require.Contains(t, second["data"], `"api_key_id":"second"`)

	again := s.listen(t, "user", "/v1/events/stream", first["id"])
	again.message()
	require.Equal(t, second, again.message())
	require.Equal(t, http.StatusBadRequest, s.listen(t, "user", "/v1/events/stream", "not an id").status)
}

func TestStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	go s.events.Poll(t.Context())
	live := s.listen(t, "user", "/v1/events/stream", "")
	live.message()
	s.emit(t, "seen")
	require.Contains(t, live.message()["data"], "seen")
	s.ended.Store(true)
	s.ahead.Store(int64(time.Minute)) // the session is looked at again, once
	s.queue(t, "unseen")
	last := live.message()
	require.Equal(t, "error", last["event"])
	require.Contains(t, last["data"], "INVALID_TOKEN")
	require.NotContains(t, last["data"], "unseen")
}

func TestStreamEndsAtOnceWhenItsKeyIsRevoked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	live := s.listen(t, "reader", "/v1/events/stream", "")
	live.message()
	s.revocable.revoke()
	last := live.message()
	require.Equal(t, "error", last["event"])
	require.Contains(t, last["data"], "API_KEY_REVOKED")
	_, err := live.lines.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestStreamEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	live := s.listen(t, "reader", "/v1/events/stream", "")
	live.message()
	s.events.EndStreams()
	_, err := live.lines.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, http.StatusServiceUnavailable, s.listen(t, "reader", "/v1/events/stream", "").status)
}
