package execution

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/share"
)

// Bounds of the executions of one tenant that a process has begun and that have not come to rest: to
// their end, or to a wait. What is over them waits here and not in the line of the workflow engine,
// where it would stand before all other tenants.
const (
	// startsMost is half of the tasks of Maps that a worker executes at once (worker/worker.go).
	startsMost = 128
	// startsWaiting is how many of a tenant wait in memory, startsWaitingAll how many of all. The
	// sweeper starts the others.
	startsWaiting    = 1000
	startsWaitingAll = 8 * startsWaiting
	// startsText is the most bytes of a payload that waits in memory.
	startsText = 64 << 10
	// startsLast is how long one counts whose worker does not tell.
	startsLast = 30 * time.Second
)

// starts are the executions that this process has begun.
type starts struct {
	places *share.Pool

	mu   sync.Mutex
	open map[uuid.UUID]func()
}

func newStarts() *starts {
	const all = 1 << 20 // what all tenants together do is bounded elsewhere
	return &starts{
		places: share.New(share.Limits{Total: all, PerOwner: startsMost, PerPart: startsMost, Waiting: startsWaitingAll, WaitingPerOwner: startsWaiting}),
		open:   map[uuid.UUID]func(){},
	}
}

// try returns false where the tenant may not begin one more now.
func (s *starts) try(e Execution) bool {
	free, ok := s.places.Try(e.TenantID.String(), "")
	if ok {
		s.add(e.ID, free)
	}
	return ok
}

// take waits until the tenant may begin one more. It returns false where too many wait.
func (s *starts) take(ctx context.Context, e Execution) bool {
	if s.try(e) {
		return true
	}
	if len(e.payload) > startsText {
		return false
	}
	free, err := s.places.Take(ctx, e.TenantID.String(), "")
	if err == nil {
		s.add(e.ID, free)
	}
	return err == nil
}

// add notes that the execution is being begun.
func (s *starts) add(id uuid.UUID, free func()) {
	s.rest(id) // an attempt before it
	lost := time.AfterFunc(startsLast, func() { s.rest(id) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = sync.OnceFunc(func() { lost.Stop(); free() })
}

// rest notes that the execution has come to rest, or was not begun.
func (s *starts) rest(id uuid.UUID) {
	s.mu.Lock()
	done := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if done != nil {
		done()
	}
}
