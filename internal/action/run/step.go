package run

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/ended"
)

// Progress is how far the run of a step is.
type Progress struct {
	Run Run
	// Step is Done where the run has ended.
	Step flow.Step
	// Writes reports whether the call is, or would have been, a write.
	Writes bool
}

// Step claims the run of a step of another workflow, governs it, and sends it, as far as that goes
// without waiting. It can be repeated at any time: the step always gets the same run, which says
// what has happened. also queues what is written with the claim of the run with that execution_id.
// A fault says why there is no run; it was not sent.
func (s *Service) Step(ctx context.Context, who actor.Actor, req Request, also func(b *db.Batch, executionID string)) (Progress, error) {
	id := uuid.Must(uuid.NewV7())
	w := s.hub.Join(id, 1)
	defer s.hub.Leave(id, w)
	plan, err := s.planClaim(ctx, id, who, req)
	if err != nil {
		return Progress{}, err
	}
	with := func(b *db.Batch) { also(b, ownName(id)) }
	if at, done, err := s.stepAhead(ctx, plan, w, with); done || err != nil {
		return at, err
	}
	c, err := s.claimPlanned(ctx, plan, with)
	if err != nil {
		return Progress{}, err
	}
	if req.Claimed != nil {
		req.Claimed()
	}
	if c.Run.State.Ended() || c.Run.State == StateIntercepted {
		return s.progress(c.Run, flow.Step{State: c.Run.State, Done: true}), nil
	}
	if c.Fresh {
		s.keepRead(c)
		s.carried.addClaim(claimedRun{run: c.Run, read: c.read, at: s.d.Now()})
	}
	step, err := s.Govern(ctx, c.Ref())
	if err == nil && !step.Done && step.ApprovalID == "" && step.After <= 0 {
		step, err = s.Send(ctx, c.Ref())
	}
	if err != nil {
		return Progress{}, err
	}
	return s.after(ctx, c.Run, step, w)
}

// GoOn takes the run of a step further after a wait: it is sent again where that is safe, or its
// call has ended meanwhile.
func (s *Service) GoOn(ctx context.Context, ref flow.RunRef) (Progress, error) {
	w := s.hub.Join(ref.RunID, ref.Attempt)
	defer s.hub.Leave(ref.RunID, w)
	step, err := s.Send(ctx, ref)
	if err != nil {
		return Progress{}, err
	}
	return s.after(ctx, Run{ID: ref.RunID, TenantID: ref.TenantID, Attempt: ref.Attempt}, step, w)
}

// Seen returns how far a run is that another workflow drives.
func (s *Service) Seen(ctx context.Context, ref flow.RunRef) (Progress, error) {
	r, err := s.read(ctx, ref.TenantID, ref.RunID)
	if err != nil {
		return Progress{}, err
	}
	return s.progress(r, flow.Step{State: r.State, Done: r.State.Ended()}), nil
}

// Stop ends the run of a step that was not sent. One that was goes on to its end.
func (s *Service) Stop(ctx context.Context, ref flow.RunRef) error {
	r, err := s.glance(ctx, ref.TenantID, ref.RunID)
	if err != nil {
		return err
	}
	if r.State != StateClaimed && r.State != StatePending {
		return nil
	}
	_, err = s.Cancel(ctx, actor.Actor{Kind: actor.System, TenantID: ref.TenantID}, r.ExecutionID)
	if fault.HasCode(err, fault.CodeConflict) {
		return nil
	}
	return err
}

// after returns the progress after a step. The row of a run that has just ended in this process
// was delivered, so that it need not be read.
func (s *Service) after(ctx context.Context, r Run, step flow.Step, w ended.Waiter[Run]) (Progress, error) {
	if !step.Done {
		r.State = step.State
		return s.progress(r, step), nil
	}
	select {
	case r = <-w.C:
		return s.progress(r, step), nil
	default:
	}
	r, err := s.read(ctx, r.TenantID, r.ID)
	if err != nil {
		return Progress{}, err
	}
	return s.progress(r, flow.Step{State: r.State, Done: r.State.Ended() || r.State == StateIntercepted}), nil
}

func (s *Service) progress(r Run, step flow.Step) Progress {
	return Progress{Run: r, Step: step, Writes: r.Operation != "read"}
}

// StepDeadline returns how long the call of a step may be sent, at least a second.
func StepDeadline(until, now time.Time) *time.Duration {
	d := min(max(until.Sub(now), time.Second), MaxExpiresIn).Truncate(time.Second)
	return &d
}
