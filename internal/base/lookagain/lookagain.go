// Package lookagain remembers what a sweeper has found in order, and when to look at it again: less
// and less often. The sweepers of runs and of messages to agents use it. It is kept in memory: a
// process that starts looks at everything once.
package lookagain

import (
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// remembered is how many things a process remembers. What is forgotten is looked at early.
const remembered = 1 << 16

// Looks remembers when each thing is to be looked at again. It is safe for concurrent use.
type Looks[K comparable] struct{ of *lru.Cache[K, look] }

type look struct {
	next time.Time
	wait time.Duration
}

// New returns an empty memory.
func New[K comparable]() *Looks[K] {
	of, err := lru.New[K, look](remembered)
	if err != nil {
		panic(fmt.Sprintf("lookagain: %v", err)) // the size is a positive constant
	}
	return &Looks[K]{of}
}

// Due reports whether the thing is to be looked at now.
func (l *Looks[K]) Due(of K, now time.Time) bool {
	seen, known := l.of.Get(of)
	return !known || !now.Before(seen.next)
}

// Leave notes that the thing was found in order. The time to the next look is first, and doubles each
// time up to most.
func (l *Looks[K]) Leave(of K, now time.Time, first, most time.Duration) {
	seen, _ := l.of.Get(of)
	wait := min(max(first, 2*seen.wait), most)
	l.of.Add(of, look{next: now.Add(wait), wait: wait})
}
