package run

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// Unsettled are writes of unknown outcome. A chain is all that has followed from one message, its session
// or one trigger.
type Unsettled string

// What a call may be compared with.
const (
	// UnsettledOfChain is for a call that a model has asked for.
	UnsettledOfChain Unsettled = "chain"
	// UnsettledOfOthers is for a step of a Map that an agent has started: the writes of other executions
	// of the chain. The author of the Map may want two equal calls.
	UnsettledOfOthers Unsettled = "others"
)

// unsettled returns the refusal of a call, because an equal one was made before and its outcome is unknown,
// or is not known yet.
func unsettled(execution string, underWay bool) *fault.Error {
	if underWay {
		f := fault.Newf(fault.CodeConflict, "The same call is under way, as execution %s. This call was not made. Look at the end of that execution first.", execution)
		f.ExecutionID, f.Status = execution, StateSending.Status()
		return f
	}
	f := fault.Newf(fault.CodeOutcomeUnknown, "The same call was made before, as execution %s, and its outcome is not known. "+
		"This call was not made. A person must find out what came of that execution, and settle it with POST /v1/executions/{id}/resolve.", execution)
	f.ExecutionID, f.Status = execution, StateOutcomeUnknown.Status()
	return f
}

// Unsettled returns how far the run is because of which a call was not made, as f says; found is false
// where f refuses a call for another reason.
func (s *Service) Unsettled(ctx context.Context, tenant uuid.UUID, f *fault.Error) (at Progress, found bool, err error) {
	if f.Code != fault.CodeOutcomeUnknown || f.ExecutionID == "" {
		return at, false, nil
	}
	r, found, err := s.toShow(ctx, tenant, f.ExecutionID)
	return s.progress(r, flow.Step{State: r.State, Done: true}), found, err
}
