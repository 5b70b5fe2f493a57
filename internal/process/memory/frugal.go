package memory

import (
	"runtime/debug"
	"sync"
	"time"
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

// lull is how long nothing must be worked on until a burst is over.
const lull = time.Second

// burst is work of which many pieces may follow one another, each too short for a collection of its own.
type burst struct {
	frugal func() (done func())

	mu    sync.Mutex
	users int
	done  func()      // of the whole burst, nil outside of one
	ends  *time.Timer // nil while there are users
}

var bursts = burst{frugal: Frugal} //nolint:gochecknoglobals // as ours

// Burst is Frugal for work that takes milliseconds and many megabytes: memory goes back to the machine
// once, a second after the last of such work was done.
func Burst() (done func()) {
	bursts.begin()
	return sync.OnceFunc(bursts.end)
}

func (b *burst) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users++
	if b.ends != nil {
		b.ends.Stop()
		b.ends = nil
	}
	if b.done == nil {
		b.done = b.frugal()
	}
}

func (b *burst) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users--; b.users == 0 {
		b.ends = time.AfterFunc(lull, b.over)
	}
}

// over ends the burst, unless another user came while the timer fired.
func (b *burst) over() {
	b.mu.Lock()
	done := b.done
	if b.users > 0 || done == nil {
		b.mu.Unlock()
		return
	}
	b.done, b.ends = nil, nil
	b.mu.Unlock()
	done()
}
