package jqchild

import (
	"time"

	"agentruntime/internal/maps/expression"
)

// Starved is what comes of a question that the processor had so little time for.
func Starved(s expression.Sandbox, question string, spent time.Duration) error {
	return s.(*sandbox).starved([]byte(question), spent) //nolint:forcetypeassert // of this package
}

// Late has the value take as long as it may.
func Late(s expression.Sandbox) { s.(*sandbox).until = time.Now() } //nolint:forcetypeassert // of this package

// Idle returns the ids of the children that do nothing.
func (p *Pool) Idle() (pids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		pids = append(pids, c.process.Process.Pid)
	}
	return pids
}
