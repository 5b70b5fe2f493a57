package chaos

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A gate stops what passes a named point: the service at its failpoints, the provider
// in the middle of a body. It is the other end of internal/dev/failpoint.
type gate struct {
	mu sync.Mutex
	// armed is how many more to stop at a point, stopped how many are.
	armed, stopped map[string]int
	opened         chan struct{}
}

func newGate() *gate {
	return &gate{armed: map[string]int{}, stopped: map[string]int{}, opened: make(chan struct{})}
}

// arm makes the gate stop the next n that pass the point.
func (g *gate) arm(point string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed[point] += n
}

// pass returns at once, or waits at an armed point until the gate opens or ctx ends.
func (g *gate) pass(ctx context.Context, point string) {
	g.mu.Lock()
	opened := g.opened
	if g.armed[point] == 0 {
		g.mu.Unlock()
		return
	}
	g.armed[point]--
	g.stopped[point]++
	g.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

// await waits until n are stopped at the point.
func (g *gate) await(t *testing.T, point string, n int) {
	t.Helper()
	rig.Until(t, stagingLimit, "runs are stopped at "+point, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.stopped[point] >= n
	})
}

// open lets all go on, and stops nothing until the gate is armed again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.armed, g.stopped, g.opened = map[string]int{}, map[string]int{}, make(chan struct{})
}

// ServeHTTP answers a failpoint when it may go on.
func (g *gate) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	g.pass(r.Context(), r.URL.Query().Get("point"))
}

func TestGateStopsAsManyAsArmed(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.arm("here", 2)
	g.pass(t.Context(), "elsewhere")
	through := make(chan struct{}, 3)
	for range 2 {
		go func() {
			g.pass(t.Context(), "here")
			through <- struct{}{}
		}()
	}
	g.await(t, "here", 2)
	g.pass(t.Context(), "here")
	require.Empty(t, through)
	g.open()
	for range 2 {
		select {
		case <-through:
		case <-time.After(stagingLimit):
			require.FailNow(t, "the open gate still stops")
		}
	}
}
