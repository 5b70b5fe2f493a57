package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentruntime/internal/kernel/fault"
)

const (
	// slotWait is how long a caller waits for a free hasher.
	slotWait = 10 * time.Second
	// waitingEach and waitingMost are the most callers that wait for a hasher, of one network
	// and of all. Two hashers serve all within slotWait.
	waitingEach = 64
	waitingMost = 256
)

// errBusy is the cause of a refusal where no hasher became free.
var errBusy = errors.New("account: no hasher is free")

// slots bounds the hashes under way: each takes 19 MiB and a processor. Networks take turns,
// so a flood of logins from one of them delays the others by one hash each.
type slots struct {
	mu   sync.Mutex
	free int
	// waiting has the callers of each network, the oldest first, and turns the networks that
	// have some, the next first.
	waiting map[string][]chan bool
	turns   []string
	all     int
}

func newSlots(n int) *slots { return &slots{free: n, waiting: map[string][]chan bool{}} }

// take waits for a slot. It refuses with LOGIN_THROTTLED where too many of the network wait,
// and with SERVICE_UNAVAILABLE where too many wait, or after slotWait.
func (s *slots) take(ctx context.Context, network string) (free func(), err error) {
	turn, err := s.queue(network)
	if err != nil {
		return nil, err
	}
	patience := time.NewTimer(slotWait)
	defer patience.Stop()
	select {
	case granted := <-turn:
		if !granted {
			return nil, busy()
		}
		return s.release, nil
	case <-ctx.Done():
		err = fmt.Errorf("account: wait for a hasher: %w", ctx.Err())
	case <-patience.C:
		err = busy()
	}
	if !s.withdraw(network, turn) && <-turn {
		s.release() // it came at the last moment
	}
	return nil, err
}

func busy() error {
	f := fault.New(fault.CodeServiceUnavailable, "").Because(errBusy)
	f.Retryable = true
	return f
}

// queue returns the channel that tells the caller of their turn: true with a slot, false
// where they gave up their place for another network.
func (s *slots) queue(network string) (chan bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := make(chan bool, 1)
	if s.free > 0 {
		s.free--
		turn <- true
		return turn, nil
	}
	mine := len(s.waiting[network])
	if mine >= waitingEach {
		return nil, throttled(time.Second)
	}
	if s.all >= waitingMost && !s.displace(mine) {
		return nil, busy()
	}
	if mine == 0 {
		s.turns = append(s.turns, network)
	}
	s.waiting[network] = append(s.waiting[network], turn)
	s.all++
	return turn, nil
}

// displace takes its place from the last caller of the network that has most waiting, if
// that network would still have more of them than the newcomer's has now.
func (s *slots) displace(mine int) bool {
	most := ""
	for _, network := range s.turns {
		if len(s.waiting[network]) > len(s.waiting[most]) {
			most = network
		}
	}
	callers := s.waiting[most]
	if len(callers) <= mine+1 {
		return false
	}
	last := callers[len(callers)-1]
	s.remove(most, len(callers)-1)
	last <- false
	return true
}

// release gives the slot to the next network's oldest caller.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		s.free++
		return
	}
	network := s.turns[0]
	turn := s.waiting[network][0]
	s.remove(network, 0)
	if len(s.waiting[network]) > 0 { // to the end of the line
		s.turns = append(s.turns[1:], network)
	}
	turn <- true
}

// withdraw takes a caller out of the line. It returns false where they were told already.
func (s *slots) withdraw(network string, turn chan bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting[network], turn)
	if i < 0 {
		return false
	}
	s.remove(network, i)
	return true
}

// remove deletes a waiting caller, and the turn of a network that has no other.
func (s *slots) remove(network string, i int) {
	s.all--
	left := slices.Delete(s.waiting[network], i, i+1)
	if len(left) > 0 {
		s.waiting[network] = left
		return
	}
	delete(s.waiting, network)
	at := slices.Index(s.turns, network)
	s.turns = slices.Delete(s.turns, at, at+1)
}
