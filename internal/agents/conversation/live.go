package conversation

import (
	"sync"

	"github.com/google/uuid"
)

// live are those in this process that follow a reply while it is written.
type live struct {
	mu    sync.Mutex
	wakes map[uuid.UUID]map[chan struct{}]struct{}
}

func newLive() *live { return &live{wakes: map[uuid.UUID]map[chan struct{}]struct{}{}} }

// join returns a channel that has something when there is news of the turn. The caller leaves.
func (l *live) join(id uuid.UUID) chan struct{} {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wakes[id] == nil {
		l.wakes[id] = map[chan struct{}]struct{}{}
	}
	l.wakes[id][c] = struct{}{}
	return c
}

func (l *live) leave(id uuid.UUID, c chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wakes[id], c)
	if len(l.wakes[id]) == 0 {
		delete(l.wakes, id)
	}
}

// wake tells all that follow the turn in this process to look.
func (l *live) wake(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.wakes[id] {
		select {
		case c <- struct{}{}:
		default: // it looks anyway
		}
	}
}
