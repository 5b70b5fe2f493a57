package models

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// mostPauses bounds the memory of pauses; beyond it all are forgotten, which costs a refusal more for
// each credential.
const mostPauses = 10_000

// pauses remembers which credentials a provider wants no request with, and until when. Each process
// has its own: a refusal tells each of them.
type pauses struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

// until returns the end of the pause of a credential; the zero time where it has none.
func (p *pauses) until(id uuid.UUID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[id]
}

func (p *pauses) set(id uuid.UUID, until time.Time) {
	if id == uuid.Nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil || len(p.at) >= mostPauses {
		p.at = map[uuid.UUID]time.Time{}
	}
	p.at[id] = until
}
