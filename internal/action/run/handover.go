package run

import (
	"context"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/approval"
)

// HandOver gives a run that must wait, for people or for long, to an ActionRun workflow of
// its own, and returns how far the run is. parent is the workflow that drove the run until
// now. It is signalled when the run ends. The step can be repeated at any time: a run that
// was handed over stays so, and one that has ended is only read. From then on the parent
// only looks at the run. If it governs or sends once more after a crash, the fence makes sure
// that the call has one effect.
func (s *Service) HandOver(ctx context.Context, ref flow.RunRef, parent string) (flow.Step, error) {
	r, err := s.glance(ctx, ref.TenantID, ref.RunID)
	switch {
	case isMissing(err):
		return s.rowMissing(ctx, ref), nil
	case err != nil:
		return flow.Step{}, err
	case r.Attempt != ref.Attempt:
		return flow.Step{State: r.State, Done: true}, nil
	}
	own := r.ownWorkflow()
	b := &db.Batch{}
	changed := db.Queue(b, s.q.HandOverRun, dbsqlc.HandOverRunParams{
		WorkflowID: own, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt, Parent: parent,
	})
	s.requireChanged(b, r)
	approval.HandOver(b, r.subject(), own)
	failpoint.Hit("before_hand_over", r.ID)
	now, found, err := s.apply(ctx, r, b, changed)
	failpoint.Hit("after_hand_over", r.ID)
	s.carried.forget(ref)
	switch {
	case err != nil:
		return flow.Step{}, err
	case !found:
		return s.LookAt(ctx, ref)
	}
	in := flow.ActionRunInput{RunRef: ref, Parent: parent}
	if err := s.d.Engine.StartRun(ctx, in, own, s.listing(r)); err != nil {
		return flow.Step{}, err
	}
	return flow.Step{State: now.State, Done: now.State.Ended()}, nil
}

// LookAt returns how far a run is that another workflow drives. It changes nothing.
func (s *Service) LookAt(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	r, err := s.glance(ctx, ref.TenantID, ref.RunID)
	switch {
	case isMissing(err):
		return s.rowMissing(ctx, ref), nil
	case err != nil:
		return flow.Step{}, err
	}
	// An intercepted run may still be released, but its caller has its answer.
	return flow.Step{State: r.State, Done: r.State.Ended() || r.Attempt != ref.Attempt}, nil
}
