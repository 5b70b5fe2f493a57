package jqchild

import (
	"crypto/sha256"
	"fmt"
	"time"

	"agentruntime/internal/maps/expression"
)

// On a busy machine the processor may have too little time for an expression, which is then evaluated again
// later. One that never ends would be evaluated again and again, so the time of its tries is added up.

const (
	// starvedPause is after how long an expression may be evaluated again that was starved. It found a
	// child, so it does not stand in the line of those who find none.
	starvedPause = 10 * time.Second
	// mostHungry is how many expressions are remembered. They are forgotten at once when there are more.
	mostHungry = 1024
)

func soon() time.Duration { return starvedPause }

// starved returns the error of an expression that the processor had too little time for: a
// *expression.BusyError, or a *Failure where its tries together took as long as a value may.
func (s *sandbox) starved(question []byte, spent time.Duration) error {
	p, key := s.pool, hunger(s.party, question)
	p.mu.Lock()
	defer p.mu.Unlock()
	spent += p.hungry[key]
	if spent >= together*p.time {
		delete(p.hungry, key)
		return &expression.Failure{Code: expression.CodeLimit, Detail: fmt.Sprintf("the expression takes longer than %s", p.time)}
	}
	if len(p.hungry) >= mostHungry {
		clear(p.hungry)
	}
	p.hungry[key] = spent
	return &expression.BusyError{Reason: errStarved, Line: soon}
}

// fed forgets an expression that has come to its end.
func (p *Pool) fed(party string, question []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hungry) > 0 {
		delete(p.hungry, hunger(party, question))
	}
}

func hunger(party string, question []byte) (key [sha256.Size]byte) {
	h := sha256.New()
	h.Write([]byte(party))
	h.Write([]byte{0})
	h.Write(question)
	h.Sum(key[:0])
	return key
}
