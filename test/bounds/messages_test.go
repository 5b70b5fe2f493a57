package bounds

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/strictmodel"
	"agentruntime/test/rig"
)

// The quotas of messages, as the shared stack has them. A session lets 20 messages wait.
const (
	mostSessions, mostOpen, mostReplyStreams = 4, 23, 2
	mostWaiting                              = 20
)

// gates keep the model from an answer: a message with the name of one is answered when it is open.
var gates sync.Map

var gateName = regexp.MustCompile(`gate-[0-9a-f-]{36}`)

// slowModel is a model whose answers wait for gates.
var slowModel = sync.OnceValue(func() string {
	return httptest.NewServer(strictmodel.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if gate, known := gates.Load(gateName.FindString(string(raw))); known {
			select {
			case <-gate.(chan struct{}):
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","model":"slow","choices":[{"index":0,"delta":{"content":"done"},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"1","object":"chat.completion.chunk","model":"slow","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`+"\n\ndata: [DONE]\n\n")
	}), strictmodel.Print)).URL
})

// gate returns a text that is answered after open was called.
func gate(t *testing.T) (text string, open func()) {
	t.Helper()
	name, closed := "gate-"+uuid.NewString(), make(chan struct{})
	gates.Store(name, closed)
	open = sync.OnceFunc(func() { close(closed) })
	t.Cleanup(open)
	return "Wait for " + name, open
}

// talker is a tenant with an agent.
type talker struct {
	*rig.Tenant
	key  *rig.Client
	path string
}

func newTalker(t *testing.T, more m) talker {
	t.Helper()
	tenant := sharedDev().For(t).NewTenant(rig.Address())
	status(t, tenant.User.Do(http.MethodPost, "/v1/model-providers", m{"slug": "own", "api": "openai", "private": "slow"}), http.StatusCreated)
	status(t, tenant.User.Do(http.MethodPost, "/v1/credentials", m{"provider": "model:own", "type": "bearer", "data": m{"token": "t"}}), http.StatusCreated)
	agent := m{"name": "Slow", "models": m{"worker": m{"provider": "own", "model": "slow", "timeout": "10m"}}, "limits": m{"wall_clock": "1h"}}
	maps.Copy(agent, more)
	a := tenant.User.Do(http.MethodPost, "/v1/agents", agent)
	status(t, a, http.StatusCreated)
	return talker{tenant, tenant.Runtime.With(tenant.User.NewKey(t, "agents:message").Key, ""), path.Join("/v1/agents", idOf(t, a))}
}

// say writes a message. It does not wait for the reply.
func (k talker) say(text, session string) rig.Answer {
	return k.key.Do(http.MethodPost, k.path+"/message", m{"message": text, "session_id": session}, "Prefer: wait=0")
}

// hear writes a message and waits for the reply. The session is "" for none.
func (k talker) hear(session string) rig.Answer {
	body := m{"message": "Hello"}
	if session != "" {
		body["session_id"] = session
	}
	return k.key.Do(http.MethodPost, k.path+"/message", body, "Prefer: wait=60")
}

func refusedByQuota(t *testing.T, a rig.Answer, quota string, most int) bool {
	t.Helper()
	return refusedBy(t, a, filling{quota: quota, most: most})
}

func TestQuotaOfAgentSessionsIsExact(t *testing.T) {
	t.Parallel()
	k, neighbour := newTalker(t, nil), newTalker(t, nil)
	var made []string
	for i, a := range together(12, func(i int) rig.Answer { return k.hear(fmt.Sprint("s", i)) }) {
		if !refusedByQuota(t, a, "agent_sessions", mostSessions) {
			status(t, a, http.StatusOK)
			made = append(made, fmt.Sprint("s", i))
		}
	}
	require.Len(t, made, mostSessions)
	require.True(t, refusedByQuota(t, k.hear("one-more"), "agent_sessions", mostSessions))
	require.True(t, refusedByQuota(t, k.hear(""), "agent_sessions", mostSessions), "a message without a session is one too")
	status(t, k.hear(made[0]), http.StatusOK)
	status(t, neighbour.hear("s"), http.StatusOK)

	status(t, k.User.Do(http.MethodDelete, k.path+"/sessions/"+made[0], nil), http.StatusOK)
	status(t, k.hear("one-more"), http.StatusOK)
	require.True(t, refusedByQuota(t, k.hear("two-more"), "agent_sessions", mostSessions))
}

func TestMessagesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	k := newTalker(t, nil)
	text, open := gate(t)
	status(t, k.say(text, "s1"), http.StatusAccepted)
	refused, accepted := 0, 0
	for _, a := range together(mostWaiting+5, func(int) rig.Answer { return k.say("Hello", "s1") }) {
		if a.Status == http.StatusAccepted {
			accepted++
			continue
		}
		refused++
		require.Equal(t, "SESSION_BUSY", a.Code(t))
		require.Equal(t, http.StatusConflict, a.Status)
		require.Contains(t, string(a.Body), fmt.Sprintf("%d messages of this session wait already", mostWaiting))
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
	require.Equal(t, []int{mostWaiting, 5}, []int{accepted, refused})

	// The tenant has one that is answered and those that wait. It may have a few more.
	for i := range mostOpen - mostWaiting - 1 {
		status(t, k.say(text, fmt.Sprint("other", i)), http.StatusAccepted)
	}
	require.True(t, refusedByQuota(t, k.say(text, "other0-more"), "open_messages", mostOpen))
	require.True(t, refusedByQuota(t, k.hear("other0-more"), "open_messages", mostOpen))

	open()
	require.Eventually(t, func() bool {
		var list []struct{ Status string }
		k.User.Do(http.MethodGet, "/v1/executions?kind=message&status=completed&limit=100", nil).Data(t, &list)
		return len(list) == mostOpen
	}, 2*time.Minute, 100*time.Millisecond)
	status(t, k.hear("s1"), http.StatusOK)
}

func TestAgentThatRejectsLetsNoMessageWait(t *testing.T) {
	t.Parallel()
	k := newTalker(t, m{"concurrency": "reject"})
	text, open := gate(t)
	status(t, k.say(text, "s1"), http.StatusAccepted)
	a := k.say("Hello", "s1")
	require.Equal(t, "SESSION_BUSY", a.Code(t))
	status(t, k.say(text, "s2"), http.StatusAccepted)
	open()
	require.Eventually(t, func() bool { return k.hear("s1").Status == http.StatusOK }, 2*time.Minute, 100*time.Millisecond)
}

// follow reads the reply to a message as a stream, up to what opens it. It returns the status and the
// body, which is still to be read.
func (k talker) follow(t *testing.T, text string) (int, io.ReadCloser) {
	t.Helper()
	raw, err := json.Marshal(m{"message": text})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.key.Base+k.path+"/message", bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set("X-API-Key", k.key.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	rep, err := k.key.HTTP.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rep.Body.Close() })
	return rep.StatusCode, rep.Body
}

func TestStreamsOfRepliesAreBounded(t *testing.T) {
	t.Parallel()
	k := newTalker(t, nil)
	text, open := gate(t)
	var followed []io.Reader
	for range mostReplyStreams {
		code, events := k.follow(t, text)
		require.Equal(t, http.StatusOK, code)
		followed = append(followed, events)
	}
	code, refusal := k.follow(t, text)
	body, err := io.ReadAll(refusal)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, code, "%s", body)
	require.Contains(t, string(body), `"QUOTA_EXCEEDED"`)
	require.Contains(t, string(body), "reply_streams")
	var list []struct{ Status string }
	k.User.Do(http.MethodGet, "/v1/executions?kind=message", nil).Data(t, &list)
	require.Len(t, list, mostReplyStreams, "the message is not answered")
	status(t, k.hear("not-a-stream"), http.StatusOK)

	open()
	for _, events := range followed {
		lines, last := bufio.NewScanner(events), ""
		for lines.Scan() {
			if event, is := strings.CutPrefix(lines.Text(), "event: "); is {
				last = event
			}
		}
		require.Equal(t, "message.completed", last)
	}
	require.Eventually(t, func() bool {
		code, events := k.follow(t, "Hello")
		defer events.Close()
		return code == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
}

// Visitors of a page who fill the quotas leave a quarter to the keys of servers.
func TestKeyOfAPageLeavesRoomToServers(t *testing.T) {
	t.Parallel()
	k := newTalker(t, nil)
	var page rig.Key
	k.User.MakeKey(m{"name": "page", "permissions": []string{"agents:message"}, "allowed_origins": []string{"https://shop.example.com"}}).Data(t, &page)
	visitors, servers := k.key.With(page.Key, ""), k.Runtime
	visit := func(n int) rig.Answer {
		return visitors.Do(http.MethodPost, k.path+"/message", m{"message": "Hello", "session_id": fmt.Sprint("v", n), "identity": m{"email": fmt.Sprintf("v%d@example.com", n)}}, "Prefer: wait=60")
	}
	for n := range 3 {
		status(t, visit(n), http.StatusOK)
	}
	refused := visit(3)
	require.True(t, refusedByQuota(t, refused, "customers", 3))
	require.Contains(t, string(refused.Body), "allowed_origins")
	status(t, servers.Do(http.MethodPost, "/v1/customers", m{"external_id": "c"}), http.StatusCreated)
	refused = visitors.Do(http.MethodPost, k.path+"/message", m{"message": "Hello", "session_id": "v4"}, "Prefer: wait=60")
	require.True(t, refusedByQuota(t, refused, "agent_sessions", 3))
	status(t, k.hear("s"), http.StatusOK)
	status(t, visit(0), http.StatusOK)
}
