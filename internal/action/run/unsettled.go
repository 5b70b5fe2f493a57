package run

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
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

// comparedAs returns what a call is compared by before it is sent: the fingerprint of what is sent, nil where
// it is not compared. One that may have been sent is known to those that are equal to it.
func (p prepared) comparedAs() []byte {
	r := p.run
	if r.Unsettled == "" || r.ParentID == nil || r.State == StateSending || r.MaybeSent || p.target.Operation() == verb.Read {
		return nil
	}
	if r.EditedArgs == nil {
		return r.Fingerprint
	}
	sent, _ := fingerprint(r.key, r.Verb, r.EditedArgs, r.DryRun) // they were judged, so they can be read
	return sent
}

// equalOf returns the refusal of a call that was claimed while an equal one of its chain was not sent yet.
// Meanwhile that one was, and it is not settled. It returns nil for any other call.
func (s *Service) equalOf(ctx context.Context, p prepared) (*fault.Error, error) {
	equal := p.comparedAs()
	if equal == nil {
		return nil, nil //nolint:nilnil // most calls are not compared
	}
	found, err := s.q.UnsettledCall(ctx, s.d.DB.Tenant(p.run.TenantID), dbsqlc.UnsettledCallParams{
		TenantID: p.run.TenantID, Fingerprint: equal, Parent: *p.run.ParentID, Others: p.run.Unsettled == UnsettledOfOthers,
	})
	if err != nil {
		return nil, fmt.Errorf("run: equal call: %w", err)
	}
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // the gate was closed for another reason
	}
	return unsettled(found[0].ExecutionID, found[0].UnderWay), nil
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
