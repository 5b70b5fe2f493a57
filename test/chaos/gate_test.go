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

// A gate holds what comes by at a named point: the service at its failpoints, the
// provider in the middle of a body. It is the other end of internal/dev/failpoint.
type gate struct {
	mu sync.Mutex
	// hold is how many more to hold at a point, held how many are.
	hold, held map[string]int
	opened     chan struct{}
}

func newGate() *gate {
	return &gate{hold: map[string]int{}, held: map[string]int{}, opened: make(chan struct{})}
}

// arm has the next n that come by the point held.
func (g *gate) arm(point string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold[point] += n
}

// pass returns at once, or holds until the gate is opened or ctx ends.
func (g *gate) pass(ctx context.Context, point string) {
	g.mu.Lock()
	opened := g.opened
	if g.hold[point] == 0 {
		g.mu.Unlock()
		return
	}
	g.hold[point]--
	g.held[point]++
	g.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

// await waits until n are held at the point.
func (g *gate) await(t *testing.T, point string, n int) {
	t.Helper()
	rig.Until(t, stagingLimit, "runs are held at "+point, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.held[point] >= n
	})
}

// open lets all go on and holds nothing any more until it is armed again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.hold, g.held, g.opened = map[string]int{}, map[string]int{}, make(chan struct{})
}

// ServeHTTP answers a failpoint when it may go on.
func (g *gate) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	g.pass(r.Context(), r.URL.Query().Get("point"))
}

func TestTheGateHoldsAsManyAsItWasArmedFor(t *testing.T) {
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
			require.FailNow(t, "the open gate still holds")
		}
	}
}
