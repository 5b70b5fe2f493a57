// Package ended tells those who wait for a run or a Map that it has an answer: in this process at
// once, in the others by a notice after the commit. The domain packages tell it, each with a Hub of
// its own, and share one Notices.
package ended

import (
	"sync"

	"github.com/google/uuid"
)

// A Hub knows which callers in this process wait for which thing. T is the thing as it ended.
type Hub[T any] struct {
	mu      sync.Mutex
	waiting map[uuid.UUID]map[Waiter[T]]struct{}
}

// A Waiter receives the thing that has ended, once. The end of an earlier attempt than its own is
// not for it: another call made that attempt.
type Waiter[T any] struct {
	C       chan T
	attempt int32
}

// NewHub returns a hub for which nobody waits.
func NewHub[T any]() *Hub[T] { return &Hub[T]{waiting: map[uuid.UUID]map[Waiter[T]]struct{}{}} }

// Join begins to wait for the attempt of a thing. The caller leaves in the end.
func (h *Hub[T]) Join(id uuid.UUID, attempt int32) Waiter[T] {
	w := Waiter[T]{C: make(chan T, 1), attempt: attempt}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[id] == nil {
		h.waiting[id] = map[Waiter[T]]struct{}{}
	}
	h.waiting[id][w] = struct{}{}
	return w
}

// Leave ends the waiting.
func (h *Hub[T]) Leave(id uuid.UUID, w Waiter[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting[id], w)
	if len(h.waiting[id]) == 0 {
		delete(h.waiting, id)
	}
}

// Awaited reports whether anybody in this process waits for the thing.
func (h *Hub[T]) Awaited(id uuid.UUID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting[id]) > 0
}

// Deliver hands what has ended to all that wait for this attempt of it in this process.
func (h *Hub[T]) Deliver(id uuid.UUID, attempt int32, what T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting[id] {
		if attempt < w.attempt {
			continue
		}
		select {
		case w.C <- what:
		default: // has one already
		}
	}
}
