package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// gate is a well-behaved provider that can be told to keep calls waiting, and that
// remembers when each came and what it said.
type gate struct {
	base    string
	release chan struct{} // closed by open
	opened  sync.Once
	// arrived gets the id of each call that asked to be held.
	arrived chan string

	mu   sync.Mutex
	hits []hit
	// now is how many calls have come and are not answered, most the most of these at once.
	now, most int
}

type hit struct {
	id   string
	at   time.Time
	body string
}

// Ways in which a call can ask to be answered, in its argument mode.
const (
	modeHold      = "hold"       // wait until the gate is opened
	modeLaterOnce = "later once" // 429 with Retry-After: 1, then fine
	modeVanish    = "vanish"     // take effect and drop the connection
	modeMoment    = "moment"     // answer after a moment, in which others would overlap
	modeWhile     = "while"      // answer after a while, of which a dozen make a second
)

// aMoment is how long an answer takes that shall overlap with others.
const aMoment = 20 * time.Millisecond

// aWhile is how long an answer takes of which a few make a second.
const aWhile = 80 * time.Millisecond

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{release: make(chan struct{}), arrived: make(chan string, 256)}
	g.base = rig.Serve(t, g)
	t.Cleanup(g.open)
	return g
}

// open lets all calls go that were held, and all that will come.
func (g *gate) open() { g.opened.Do(func() { close(g.release) }) }

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, _ := io.ReadAll(r.Body)
	args := struct{ ID, Mode string }{r.URL.Query().Get("id"), r.URL.Query().Get("mode")}
	_ = json.Unmarshal(body, &args)
	g.mu.Lock()
	g.hits = append(g.hits, hit{args.ID, at, string(body)})
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	defer g.answered()
	switch args.Mode {
	case modeHold:
		g.arrived <- args.ID
		select {
		case <-g.release:
		case <-r.Context().Done():
			return
		}
	case modeLaterOnce:
		if len(g.of(args.ID)) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			g.arrived <- args.ID
			return
		}
	case modeVanish:
		panic(http.ErrAbortHandler)
	case modeMoment, modeWhile:
		after := aMoment
		if args.Mode == modeWhile {
			after = aWhile
		}
		select {
		case <-time.After(after):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q,"hit":%d}`, args.ID, len(g.of(args.ID)))
}

func (g *gate) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

// together returns the most calls that were open at once.
func (g *gate) together() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// of lists the calls with the id.
func (g *gate) of(id string) []hit {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []hit
	for _, h := range g.hits {
		if h.id == id {
			list = append(list, h)
		}
	}
	return list
}

// before returns how many calls came before the first with the id.
func (g *gate) before(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.IndexFunc(g.hits, func(h hit) bool { return h.id == id })
}

func (g *gate) all() []hit {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]hit(nil), g.hits...)
}

func gateDocument() json.RawMessage {
	args := []string{"id", "mode"}
	return document(bearer(),
		operation{method: http.MethodGet, path: "/things", id: "get_thing", args: args},
		operation{method: http.MethodPost, path: "/things", id: "create_thing", args: args, number: "amount"},
		operation{method: http.MethodDelete, path: "/things", id: "delete_thing", args: args},
	)
}

// connected makes a gate and a tenant that is connected to it as provider "gate".
func connected(t *testing.T, s *rig.Stack) (*gate, *rig.Tenant) {
	t.Helper()
	g, tenant := newGate(t), newTenant(s)
	tenant.Connect(t, "gate", g.base, gateDocument(), "bearer", map[string]string{"token": "gate-token"})
	return g, tenant
}

// arriveLimit is generous: it is what a loaded machine may take, not what it does.
const arriveLimit = time.Minute

func (g *gate) awaitArrival(t *testing.T) string {
	t.Helper()
	select {
	case id := <-g.arrived:
		return id
	case <-time.After(arriveLimit):
		require.FailNow(t, "the call did not reach the provider")
		return ""
	}
}

// awaitAnswer reads what a call in the background was told.
func awaitAnswer(t *testing.T, answers <-chan rig.Answer) rig.Answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(arriveLimit):
		require.FailNow(t, "the call was not answered")
		return rig.Answer{}
	}
}

// create calls the gate's write in the background.
func create(c *rig.Client, id, mode string) <-chan rig.Answer {
	answers := make(chan rig.Answer, 1)
	go func() { answers <- createNow(c, id, mode) }()
	return answers
}

func createNow(c *rig.Client, id, mode string, headers ...string) rig.Answer {
	return c.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
		"verb": "gate:create_thing", "args": map[string]any{"id": id, "mode": mode}, "execution_id": id,
	}, headers...)
}

func requireCode(t *testing.T, a rig.Answer, status int, code string) rig.Envelope {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, status, a.Status, "%s", a.Body)
	e := a.Envelope(t)
	require.False(t, e.Success)
	require.Equal(t, code, e.Error.Code, "%s", a.Body)
	return e
}

func awaitStatus(t *testing.T, c *rig.Client, id, status string) execution {
	t.Helper()
	var e execution
	rig.Until(t, arriveLimit, id+" is "+status, func() bool {
		e = executionOf(t, c, id)
		return e.Status == status
	})
	return e
}
