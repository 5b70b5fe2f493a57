package run

import (
	"context"
	"encoding/json"
	"slices"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Result returns the stored result of an execution: in the clear to the key that made the call,
// masked to all others. The error is RESULT_EXPIRED where it is no longer kept,
// EXECUTION_UNREADABLE where it does not open, CONFLICT where the run has none, and as for Get.
func (s *Service) Result(ctx context.Context, who actor.Actor, executionID string) (json.RawMessage, error) {
	r, err := s.Get(ctx, who, executionID)
	switch {
	case err != nil:
		return nil, err
	case r.ErasedAt != nil:
		return nil, r.resultExpired()
	case slices.Contains(r.Unreadable, unreadableResult):
		return nil, r.unreadable()
	case r.Result == nil:
		return nil, fault.Newf(fault.CodeConflict, "The execution has no result. Its status is %s.", r.State.Status())
	}
	if !r.calledBy(who) {
		r = s.Shown(ctx, r)
	}
	return r.Result, nil
}

// calledBy reports whether the actor is the key whose call over HTTP the run is.
func (r Run) calledBy(who actor.Actor) bool {
	key := who.KeyID()
	return r.Kind == actor.Key && key != nil && r.KeyID != nil && *r.KeyID == *key
}
