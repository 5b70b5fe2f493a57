package run

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

const (
	// runLasts is how long a run has, from its claim or its release by approvers, where the
	// caller does not say. No attempt begins later.
	runLasts = 15 * time.Minute
	// MaxExpiresIn is the longest time that a caller may ask for.
	MaxExpiresIn = 24 * time.Hour
)

// expiresAt returns the time after which a run that begins now is not sent.
func expiresAt(now time.Time, in *time.Duration) time.Time {
	if in == nil {
		return now.Add(runLasts)
	}
	return now.Add(*in)
}

// boundsPeople reports whether the run's time is over however long people take: a caller over
// HTTP no longer wants the call then. The time of a Map's step or of a message does not count theirs.
func (r Run) boundsPeople() bool {
	return r.ExpiresIn != nil && r.ExpiresAt != nil && r.ParentID == nil
}

// renewed returns the time after which a run that people release now is not sent. The time
// that a caller asked for is not renewed, and that of a step begins again.
func (r Run) renewed(now time.Time) time.Time {
	switch {
	case r.boundsPeople():
		return *r.ExpiresAt
	case r.ExpiresIn != nil:
		return now.Add(*r.ExpiresIn)
	default:
		return now.Add(runLasts)
	}
}

// askedUntil returns until when people may decide about the run: at most until the caller
// no longer wants it.
func (r Run) askedUntil(until time.Time) time.Time {
	if r.boundsPeople() && r.ExpiresAt.Before(until) {
		return *r.ExpiresAt
	}
	return until
}

func (r Run) expired(now time.Time) bool { return r.ExpiresAt != nil && !now.Before(*r.ExpiresAt) }

// A span is the time that is left for further attempts. Where nobody waits for the answer,
// attempts without effect may be many and far apart.
type span struct {
	left        time.Duration
	nobodyWaits bool
}

// span returns the time that a run has. While the caller waits, an attempt must begin before
// the wait is over: then the caller gets a refusal and not a 202.
func (r Run) span(now time.Time) span {
	if now.Before(r.GiveUpAt) {
		return span{left: r.GiveUpAt.Sub(now)}
	}
	if r.ExpiresAt == nil {
		return span{}
	}
	return span{left: r.ExpiresAt.Sub(now), nobodyWaits: true}
}

// pauseLeast is the shortest rest of a pause that is waited for. Workflows wait for the pause
// themselves, so usually none is left. The clocks of Postgres and of this process may differ
// a little, and each wait costs two writes of Temporal.
const pauseLeast = 100 * time.Millisecond

// paused returns how long the run must still not be sent, 0 where it may be. The step that
// told its workflow of the pause may have been lost.
func (r Run) paused(now time.Time) time.Duration {
	rest := min(r.RetryAfter, r.UpdatedAt.Add(r.RetryAfter).Sub(now))
	if r.State != StateClaimed || r.Sends == 0 || rest < pauseLeast {
		return 0
	}
	return rest
}

// pauseOf returns how long this process must still not send the run, 0 where it may. A clock
// that is behind that of Postgres sees the pause begin in the future, again and again. So the
// process remembers when the pause that it has seen is over.
func (s *Service) pauseOf(r Run) time.Duration {
	now := s.d.Now()
	rest := r.paused(now)
	if rest == 0 {
		return 0
	}
	if seen, known := s.carried.pauses.Get(r.ref()); known && seen.sends == r.Sends {
		if rest = min(rest, seen.until.Sub(now)); rest < pauseLeast {
			return 0
		}
		return rest
	}
	s.carried.pauses.Add(r.ref(), seenPause{sends: r.Sends, until: now.Add(rest)})
	return rest
}

// expire ends a run whose time is over. It is refused where nothing was sent. Otherwise its
// outcome is unknown.
func (s *Service) expire(ctx context.Context, p prepared) (flow.Step, error) {
	return s.unprepared(ctx, p, fault.New(fault.CodeRunExpired, ""))
}

// missedTurn ends a run whose time was over before it was its turn to be sent. A run that has
// moved on meanwhile is looked at again. Nothing is sent here.
func (s *Service) missedTurn(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	p, mine, err := s.load(ctx, ref)
	if err == nil && mine && p.run.expired(s.d.Now()) && (p.run.State == StateClaimed || p.run.State == StateSending) {
		if again, yes := s.underWay(p.run); yes {
			return again, nil
		}
		return s.expire(ctx, p)
	}
	step, err := s.Govern(ctx, ref)
	if err == nil && !step.Done && step.After == 0 {
		step.After = lookAgain
	}
	return step, err
}

// gaveUpMessage is the answer for the caller of a run whose steps failed until its time was
// over.
const gaveUpMessage = "The service could not process this call in time, by a fault of its own. Nothing was sent; the id may be used again."

// GiveUp ends a run whose steps fail by a fault of ours, once its time is over: it is refused
// where nothing was sent, and its outcome is unknown where something may have been. Before
// that it changes nothing. A run that waits for people has its time until they should have
// decided, and the time of a run after that. It opens nothing that is sealed, because any of
// that may be what fails.
func (s *Service) GiveUp(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	r, err := s.glance(ctx, ref.TenantID, ref.RunID)
	switch {
	case isMissing(err):
		return s.rowMissing(ctx, ref), nil
	case err != nil:
		return flow.Step{}, err
	case r.Attempt != ref.Attempt || r.State.Ended() && r.State != StateIntercepted:
		return flow.Step{State: r.State, Done: true}, nil
	case r.ApprovalID != nil && (r.State == StatePending || r.State == StateIntercepted):
		return s.giveUpHeld(ctx, r)
	case !r.expired(s.d.Now()) || r.State != StateClaimed && r.State != StateSending:
		return flow.Step{State: r.State}, nil
	}
	if again, yes := s.underWay(r); yes {
		return again, nil
	}
	return s.unprepared(ctx, prepared{run: r}, fault.New(fault.CodeInternal, gaveUpMessage))
}

// giveUpHeld is GiveUp for a run that waits for people.
func (s *Service) giveUpHeld(ctx context.Context, r Run) (flow.Step, error) {
	a, _, err := s.readApproval(ctx, r)
	if err != nil || a.Status != governance.ApprovalPending || s.d.Now().Before(a.ExpiresAt.Add(runLasts)) {
		return flow.Step{State: r.State}, err
	}
	return s.closeHeld(ctx, prepared{run: r}, closing{
		status: governance.ApprovalExpired, state: StateExpired, code: fault.CodeGovernanceBlocked, message: expiredReason, reason: expiredReason,
	})
}

// mayRepeat returns why an attempt that may have had its effect must not be repeated as the
// call is judged now, "" where it may be. A repeat must be the same request under the same
// credential: anything else could have a second effect.
func (p prepared) mayRepeat() string {
	switch {
	case p.run.RequestHash != nil && string(p.run.RequestHash) != string(p.requestHash()):
		return "The verb, its provider or the credential has changed."
	case p.target.Connected() != nil:
		return "The provider's credential is gone."
	case p.verdict.Decision == governance.Block:
		return "The call is blocked now: " + p.verdict.Reason
	case p.verdict.ApprovalRequired() && !p.run.Held && p.run.GrantID == nil:
		return "The call needs an approval now: " + p.verdict.Reason
	}
	return ""
}

// requestHash returns the SHA-256 of what an attempt is made of besides its arguments.
func (p prepared) requestHash() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%x %q %q %q %s", p.target.SchemaHash(), p.target.Risk(), p.target.Operation(), p.target.Idempotency(), idOrNone(p.target.CredentialID()))
	return h.Sum(nil)
}
