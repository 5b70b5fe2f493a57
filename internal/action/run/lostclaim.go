package run

import (
	"context"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// lostClaim returns the refusal of a call whose claim failed with err. Postgres may have made
// the claim, and its answer was lost. A caller with an id of their own repeats the call by it.
// A caller without one can only make another call, so the claim is withdrawn before they are
// told.
func (s *Service) lostClaim(ctx context.Context, c Claimed, call claimedCall, r Run, err error) error {
	if !c.ownID || !db.MayHaveCommitted(err) {
		return err
	}
	r.ID, r.ExecutionID, r.Attempt, r.State = call.ID, call.ExecutionID, 1, StateClaimed
	r.Verb, r.SessionID = verb.Name{Provider: call.Provider, Verb: call.Verb}, db.Optional(call.SessionID)
	r.Origin, r.RequestID, r.SourceAddr = call.Origin, call.RequestID, call.SourceAddr
	withdrawn, failed := s.withdraw(ctx, r)
	message := "The database could not be reached. The call was withdrawn and nothing of it will run: make it again."
	switch {
	case failed == nil && !withdrawn:
		return err // it was not made
	case failed != nil:
		s.d.Log.WarnContext(ctx, "claim not withdrawn", "run_id", r.ID, "error", failed)
		message = "The database cannot be reached, and the call may still run. Read GET /v1/executions/{id} before you make it again."
	}
	f := fault.New(fault.CodeServiceUnavailable, message).Because(err)
	f.ExecutionID, f.Retryable = r.ExecutionID, true
	return f
}
