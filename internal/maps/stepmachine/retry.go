package stepmachine

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
)

// The waits for a provider that asked to wait and did not say for how long.
const (
	firstDelay = time.Second
	mostDelay  = 30 * time.Second
)

// retries reports whether a failed call is made again, and after which wait. The end of a call
// that may have had an effect never allows it. A provider that only asks to wait is waited
// for until the step's deadline, whatever the step says of retries.
func (m *machine) retries(t *Task, e *Error, mayRepeat bool) (time.Duration, bool) {
	if !mayRepeat || e.Code == codeOutcomeUnknown || e.Code == mapdef.CodeStepTimeout {
		return 0, false
	}
	if e.asksToWait() {
		if wait := e.delay(t.Delays); m.mayWait(t, wait) {
			t.Delays++
			t.Tries--
			return wait, true
		}
		return 0, false
	}
	policy := m.policy(t)
	if policy == nil || t.Tries >= policy.MaxAttempts {
		return 0, false
	}
	if on := policy.RetryOn; len(on) > 0 && !slices.Contains(on, e.Code) && !slices.Contains(on, mapdef.AnyError) {
		return 0, false
	}
	wait := max(m.backoff(t, policy), e.retryAfter())
	return wait, m.mayWait(t, wait)
}

// policy returns how the step is tried again; nil where it is not.
func (m *machine) policy(t *Task) *mapdef.Retry {
	if r := m.p.step(t).Retry; r != nil {
		return r
	}
	return m.p.def.Defaults.Retry
}

// mayWait reports whether the deadline of the task allows the wait. The retries of a Map that
// may take as long as it likes have a bound too.
func (m *machine) mayWait(t *Task, wait time.Duration) bool {
	deadline := t.Deadline
	if deadline.IsZero() {
		deadline = t.Began.Add(m.p.timeout(m.p.step(t)))
	}
	return !m.now.Add(wait).After(deadline)
}

// backoff returns the wait before the next attempt.
func (m *machine) backoff(t *Task, r *mapdef.Retry) time.Duration {
	initial := r.Initial.Std()
	if initial <= 0 {
		initial = firstDelay
	}
	most := float64(mapdef.MaxDuration)
	if r.MaxInterval > 0 {
		most = float64(r.MaxInterval)
	}
	wait := min(most, float64(initial)*math.Pow(max(1, r.Backoff), float64(t.Tries-1)))
	wait *= 1 - r.Jitter*m.fraction(t)
	return time.Duration(wait).Round(time.Millisecond)
}

// fraction returns a number from 0 up to 1 that is the same whenever the same attempt asks.
func (m *machine) fraction(t *Task) float64 {
	sum := sha256.Sum256([]byte(m.s.Execution + t.String() + "#" + strconv.Itoa(t.Attempt)))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// asksToWait reports whether the call failed only because it came too early.
func (e *Error) asksToWait() bool {
	switch fault.Code(e.Code) {
	case mapdef.CodeCircuitOpen, fault.CodeRateLimited:
		return true
	case fault.CodeProviderRejected:
		return e.Retryable
	default:
		return false
	}
}

// delay returns how long to wait for a provider that asked for it, the nth time.
func (e *Error) delay(nth int) time.Duration {
	if after := e.retryAfter(); after > 0 {
		return after
	}
	return min(mostDelay, firstDelay<<min(nth, 10))
}

func (e *Error) retryAfter() time.Duration { return time.Duration(e.RetryAfterMS) * time.Millisecond }
