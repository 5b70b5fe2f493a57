package memory

import (
	"runtime/debug"
	"sync"
)

// frugalPercent is percent for work that takes hundreds of megabytes. An import of 25 MB, of which
// 250 MB are live, grows to 1.3 GB at 400 and to 0.4 GB at 50, in the same time.
const frugalPercent = 50

// collector is the one of the process, which several may ask to be frugal.
type collector struct {
	mu    sync.Mutex
	users int
	usual int // the percent without users
}

var ours collector //nolint:gochecknoglobals // a process has one garbage collector

// Frugal has the process collect early until all that called it have called done. done also gives back
// to the machine what is no longer live, so what was worked on must be let go before. A lower percent of
// the environment stays, and so does no percent at all (GOGC=off).
func Frugal() (done func()) {
	ours.begin()
	return sync.OnceFunc(ours.end)
}

func (c *collector) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users > 1 {
		return
	}
	if c.usual = debug.SetGCPercent(frugalPercent); c.usual < frugalPercent {
		debug.SetGCPercent(c.usual)
	}
}

// end collects while others go on too: what the next one takes would come on top of it. It does so
// before it restores the percent, otherwise the heap may grow to five times what the work took before it
// is collected again.
func (c *collector) end() {
	debug.FreeOSMemory()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		debug.SetGCPercent(c.usual)
	}
}
