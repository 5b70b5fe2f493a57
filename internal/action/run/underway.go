package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/share"
	"agentruntime/internal/base/turns"
)

// A call at a provider can take a minute. Its step takes much less: the call is made apart
// from the step, which waits for it only for a moment. A call that takes longer is said to
// be under way, and the step's workflow is told when it has ended. So slow providers occupy
// no place of a worker, and governing and decisions never wait behind sending.
const (
	// patientMost is how many steps of a process wait for their calls at once. It is half of
	// the workflow tasks that a worker executes at once (worker/worker.go).
	patientMost = 128
	// turnKept is how long a step that waits for its call keeps its turn. Most of a call that ends
	// sooner is work of this process.
	turnKept = 25 * time.Millisecond
	// sendLimit bounds one attempt: the longest call to a provider (60 s), and the recording
	// of its outcome through an outage of Postgres.
	sendLimit = 3 * time.Minute
	// underWayAfter is how long a workflow waits for news about its call. Then it looks at
	// the row: the process that made the call may have ended.
	underWayAfter = 20 * time.Second
)

// DefaultSends is how many calls a process makes at once, where no setting says. Of these a
// tenant gets an eighth, and a provider of the tenant a sixteenth.
const DefaultSends = 1024

// sendShares divides the calls that a process makes at once.
func sendShares(total int) share.Limits {
	return share.Limits{
		Total: total, PerOwner: max(1, total/8), PerPart: max(1, total/16),
		// A waiting call takes about 3 KB. Where too many wait, the workflow waits instead.
		Waiting: 16 * total, WaitingPerOwner: 2 * total,
	}
}

// underway are the attempts of this process that have begun or wait for their turn.
type underway struct {
	patient chan struct{}
	// stop ends stopping, and so the waiting for a turn.
	stopping context.Context
	stop     context.CancelCauseFunc

	mu    sync.Mutex
	calls map[flow.RunRef]*underwayCall
	wg    sync.WaitGroup
}

// underwayCall is one attempt. Its step and err are set before done is closed.
type underwayCall struct {
	done chan struct{}
	step flow.Step
	err  error
	// queued is closed when the attempt has to wait for its turn.
	queued chan struct{}
	queue  sync.Once
	// left: no step waits any longer, so the workflow is told of the end.
	left bool
	// marked is set where the run is marked already, and has its place.
	marked *marked
}

var (
	errStopping = errors.New("run: the process stops")
	errTooLate  = errors.New("run: the time of the run is over")
	errPanicked = errors.New("run: a send panicked")
)

func newUnderway() *underway {
	u := &underway{patient: make(chan struct{}, patientMost), calls: map[flow.RunRef]*underwayCall{}}
	u.stopping, u.stop = context.WithCancelCause(context.Background())
	return u
}

// Send makes one attempt at the provider, or finds the one that this process makes already.
// It returns what follows, or that the attempt is under way. Then the workflow gets the
// signal flow.SignalRecheck when it has ended. An error means that the step should be
// repeated.
func (s *Service) Send(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	return s.send(ctx, ref, nil)
}

// send is Send, of a run that the caller has marked where m is not nil.
func (s *Service) send(ctx context.Context, ref flow.RunRef, m *marked) (flow.Step, error) {
	u := s.underway
	u.mu.Lock()
	c := u.calls[ref]
	if c == nil {
		c = &underwayCall{done: make(chan struct{}), queued: make(chan struct{}), marked: m}
		u.calls[ref] = c
		u.wg.Add(1)
		go s.sendApart(context.WithoutCancel(ctx), ref, c)
	}
	c.left = false
	u.mu.Unlock()
	s.awaitCall(ctx, c)

	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-c.done:
		if u.calls[ref] == c {
			delete(u.calls, ref)
		}
		return c.step, c.err
	default:
		c.left = true
		return flow.Step{State: StateSending, After: underWayAfter, UnderWay: true}, nil
	}
}

type patienceKey struct{}

// WithPatience returns a context for one step of a run, which waits so long for its call instead of
// Config.Patience; 0 leaves that.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, d)
}

// patience returns how long a step waits for its call.
func (s *Service) patience(ctx context.Context) time.Duration {
	if d, set := ctx.Value(patienceKey{}).(time.Duration); set {
		return min(d, s.cfg.Patience)
	}
	return s.cfg.Patience
}

// awaitCall waits for the end of the attempt as long as a step may.
func (s *Service) awaitCall(ctx context.Context, c *underwayCall) {
	select {
	case <-c.done:
		return
	case s.underway.patient <- struct{}{}:
		defer func() { <-s.underway.patient }()
	default:
		// Too many steps wait already.
		return
	}
	timer := time.NewTimer(s.patience(ctx))
	defer timer.Stop()
	// The step of a Map has a turn of its tenant's, which is for what costs this process something.
	lasts := time.AfterFunc(turnKept, func() { turns.GiveBack(ctx) })
	defer lasts.Stop()
	select {
	case <-c.done:
	case <-c.queued:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// sendApart makes the attempt when it is its turn, and tells the workflow where no step
// waits for it.
func (s *Service) sendApart(ctx context.Context, ref flow.RunRef, c *underwayCall) {
	u := s.underway
	defer u.wg.Done()
	step, err := s.sendSafely(ctx, ref, c)
	u.mu.Lock()
	c.step, c.err = step, err
	tell := c.left
	if tell {
		delete(u.calls, ref) // the workflow reads the row
	}
	close(c.done)
	u.mu.Unlock()
	if tell {
		s.tellDrivers(ctx, ref)
	}
}

// sendSafely is sendInTurn. A panic becomes an error, as in a step that Temporal makes: one run
// must not end the process, and each that starts after it.
func (s *Service) sendSafely(ctx context.Context, ref flow.RunRef, c *underwayCall) (step flow.Step, err error) {
	defer func() {
		if v := recover(); v != nil {
			// The value of a panic may quote what it failed on.
			s.d.Log.ErrorContext(ctx, "a send panicked", "run_id", ref.RunID, "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			step, err = flow.Step{}, errPanicked
		}
	}()
	return s.sendInTurn(ctx, ref, c)
}

// sendInTurn makes the attempt, and before it the look-ups that the run needs. These take shares of
// their own providers, and none while the run has one: runs that wait for each other's would not end.
func (s *Service) sendInTurn(ctx context.Context, ref flow.RunRef, c *underwayCall) (flow.Step, error) {
	if m := c.marked; m != nil {
		defer m.release()
		ctx, cancel := context.WithTimeout(ctx, sendLimit)
		defer cancel()
		return s.sendMarked(ctx, *m)
	}
	for range lookupRounds {
		step, err := s.attemptInTurn(ctx, ref, c)
		need := lookups(err)
		if need == nil {
			return step, err
		}
		if step, err = s.lookUp(ctx, need); err != nil || step.Done {
			return step, err
		}
	}
	return flow.Step{State: StateClaimed, After: underWayAfter}, nil
}

// attemptInTurn waits for the share of the run's tenant and provider, then makes the attempt.
func (s *Service) attemptInTurn(ctx context.Context, ref flow.RunRef, c *underwayCall) (flow.Step, error) {
	r, err := s.waitingRun(ctx, ref)
	if err != nil {
		return flow.Step{}, err
	}
	tenant, provider := ref.TenantID.String(), r.Verb.Provider
	release, free := s.sends.Try(tenant, provider)
	if !free {
		c.queue.Do(func() { close(c.queued) })
		// Much may change until it is the run's turn. Then it is read and judged again.
		s.carried.forgetJudgement(ref)
		waiting, stop := s.turnOf(r)
		defer stop()
		release, err = s.sends.Take(waiting, tenant, provider) //nolint:contextcheck // waiting ends with the process, not with the step
		switch {
		case errors.Is(err, errTooLate):
			return s.missedTurn(ctx, ref)
		case err != nil:
			// The process stops, or too many wait: the workflow tries again later.
			return flow.Step{State: StateClaimed, After: underWayAfter}, nil
		}
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	return s.sendOnce(ctx, ref)
}

// turnOf returns the context in which a run waits for its turn: until the process stops, and
// while the run may still be sent.
func (s *Service) turnOf(r Run) (context.Context, context.CancelFunc) {
	if r.ExpiresAt == nil {
		return context.WithCancel(s.underway.stopping)
	}
	return context.WithTimeoutCause(s.underway.stopping, r.ExpiresAt.Sub(s.d.Now()), errTooLate)
}

// waitingRun returns the run as it is known here, otherwise as its row is; the zero Run where
// there is no row, which the attempt says.
func (s *Service) waitingRun(ctx context.Context, ref flow.RunRef) (Run, error) {
	if p, known := s.carried.judgement(ref); known {
		return p.run, nil
	}
	if c, known := s.carried.claims.Peek(ref); known {
		return c.run, nil
	}
	r, err := s.get(ctx, ref.TenantID, ref.RunID)
	switch {
	case isMissing(err):
		return Run{}, nil
	case err == nil:
		s.carried.addClaim(claimedRun{run: r})
	}
	return r, err
}

// tellDrivers has the workflows that wait for the run look at it. A signal that is lost costs
// them their wait.
func (s *Service) tellDrivers(ctx context.Context, ref flow.RunRef) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	drivers, err := s.q.DriversOfRun(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.DriversOfRunParams{TenantID: ref.TenantID, ID: ref.RunID})
	for _, workflow := range drivers {
		_, nudged := s.d.Engine.Nudge(ctx, workflow) // one that has ended needs none
		err = errors.Join(err, nudged)
	}
	if err != nil {
		s.d.Log.WarnContext(ctx, "workflow not told of the end of its call", "run_id", ref.RunID, "error", err)
	}
}

// Drain ends what waits for its turn, and waits for the calls that have begun, until ctx
// ends. The process calls it when its workers have stopped.
func (s *Service) Drain(ctx context.Context) {
	s.underway.stop(errStopping)
	done := make(chan struct{})
	go func() { s.underway.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
