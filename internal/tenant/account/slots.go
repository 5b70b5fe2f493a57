package account

import (
	"context"
	"errors"
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
)

const (
	// slotWait is how long a caller waits for a free hasher.
	slotWait = 10 * time.Second
	// waitingEach and waitingMost are the most callers that wait for a hasher, of one network
	// and of all. Two hashers serve all within slotWait.
	waitingEach = 64
	waitingMost = 256
)

// slots bounds the hashes under way: each takes 19 MiB and a processor. Networks take turns,
// so a flood of logins from one of them delays the others by one hash each.
type slots struct{ turns *turns.Turns }

func newSlots(n int) *slots {
	return &slots{turns.New(turns.Config{Slots: n, Wait: slotWait, Each: waitingEach, Most: waitingMost})}
}

// take waits for a slot. It refuses with LOGIN_THROTTLED where too many of the network wait,
// and with SERVICE_UNAVAILABLE where too many wait, or after slotWait.
func (s *slots) take(ctx context.Context, network string) (free func(), err error) {
	free, err = s.turns.Take(ctx, network)
	switch {
	case errors.Is(err, turns.ErrCrowded):
		return nil, throttled(time.Second)
	case errors.Is(err, turns.ErrBusy):
		f := fault.New(fault.CodeServiceUnavailable, "").Because(err)
		f.Retryable = true
		return nil, f
	}
	return free, err
}
