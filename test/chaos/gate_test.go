package chaos

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A gate stops calls at named points: the service at its failpoints, the provider in the
// middle of a body. It is the other end of internal/base/failpoint. It stops a call only at
// the point that is armed for this call, so no call takes another's place.
type gate struct {
	// callOf returns the call that a run at the point belongs to, "" where that cannot be read.
	callOf func(ctx context.Context, point, run string) string

	mu sync.Mutex
	// armed are the stops to make, and the how manieth time that the call comes there it is stopped.
	// stopped are those that were made.
	armed   map[stop]int
	stopped map[stop]bool
	opened  chan struct{}
	// keeps: a call that was stopped is stopped at every later point too. An attempt that is over after
	// its time is followed by another, which on a slow machine would leave the point before the kill.
	keeps bool
	// listening: the gate notes in heard what passes.
	listening bool
	heard     []stop
}

// stop is a call at a point.
type stop struct{ point, call string }

func newGate() *gate {
	return &gate{armed: map[stop]int{}, stopped: map[stop]bool{}, opened: make(chan struct{})}
}

// arm makes the gate stop the call at the point, whenever it passes there.
func (g *gate) arm(point, call string) { g.armNth(point, call, 1) }

// armNth makes the gate stop the call at the point from the nth time on.
func (g *gate) armNth(point, call string, nth int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed[stop{point, call}] = nth
}

// pass returns at once, or waits at a point that is armed for the call until the gate opens
// or ctx ends.
func (g *gate) pass(ctx context.Context, point, call string) {
	g.mu.Lock()
	opened, at := g.opened, stop{point, call}
	if g.listening {
		g.heard = append(g.heard, at)
	}
	if held := g.keeps && g.holds(call); g.armed[at] != 1 && !held {
		if g.armed[at] > 1 {
			g.armed[at]--
		}
		g.mu.Unlock()
		return
	}
	g.stopped[at] = true
	g.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

// holds reports whether the call is stopped at any point. The caller has the lock.
func (g *gate) holds(call string) bool {
	for at := range g.stopped {
		if at.call == call {
			return true
		}
	}
	return false
}

// await waits until the call is stopped at the point.
func (g *gate) await(t *testing.T, point, call string) {
	t.Helper()
	rig.Until(t, stagingLimit, call+" is stopped at "+point, func() bool { return g.stops(point, call) })
}

// stops reports whether the call is stopped at the point.
func (g *gate) stops(point, call string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped[stop{point, call}]
}

// open lets all go on, and stops nothing until the gate is armed again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.armed, g.stopped, g.opened = map[stop]int{}, map[stop]bool{}, make(chan struct{})
}

// waitsAt reports whether a call is to be stopped at the point.
func (g *gate) waitsAt(point string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for at := range g.armed {
		if at.point == point {
			return true
		}
	}
	return g.listening || g.keeps && len(g.stopped) > 0
}

// ServeHTTP answers a failpoint when its run may go on.
func (g *gate) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	point := r.URL.Query().Get("point")
	if g.waitsAt(point) {
		g.pass(r.Context(), point, g.callOf(r.Context(), point, r.URL.Query().Get("run")))
	}
}

// callInDatabase reads whose run it is: the workflow's that makes it as a step, otherwise
// the caller's by its execution id. For an execution of a Map it is that itself.
func callInDatabase(url string) func(ctx context.Context, point, run string) string {
	return func(ctx context.Context, _, run string) (call string) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return "" // the database was killed, and with it all that is to be stopped
		}
		defer conn.Close(ctx)
		if conn.QueryRow(ctx, `SELECT coalesce(parent_id, execution_id) FROM runs WHERE id = $1
			UNION ALL SELECT execution_id FROM map_executions WHERE id = $1`, run).Scan(&call) != nil {
			return ""
		}
		return call
	}
}

func TestGateStopsTheCallItIsArmedFor(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.arm("here", "one")
	g.arm("here", "two")
	g.arm("there", "three")
	g.pass(t.Context(), "elsewhere", "one")
	g.pass(t.Context(), "here", "three")
	through := make(chan struct{}, 3)
	for _, call := range []string{"one", "two", "two"} { // a repeated step is stopped too
		go func() {
			g.pass(t.Context(), "here", call)
			through <- struct{}{}
		}()
	}
	g.await(t, "here", "one")
	g.await(t, "here", "two")
	require.False(t, g.stops("there", "three"))
	require.Empty(t, through)
	g.open()
	for range 3 {
		select {
		case <-through:
		case <-time.After(stagingLimit):
			require.FailNow(t, "the open gate still stops")
		}
	}
	g.pass(t.Context(), "here", "one")

	g.keeps = true
	g.arm("here", "one")
	over, end := context.WithCancel(t.Context())
	end()
	g.pass(over, "here", "one")
	require.True(t, g.waitsAt("later"))
	g.pass(t.Context(), "later", "two")
	g.pass(over, "later", "one")
	require.True(t, g.stops("later", "one"), "the next attempt of what was stopped is stopped wherever it comes")
	require.False(t, g.stops("later", "two"))
}
