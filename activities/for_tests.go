//go:build chaos

package activities

import (
	"context"
	"encoding/json"
	"strconv"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
)

// claimer is the part of the run domain that claims.
type claimer interface {
	Claim(ctx context.Context, who actor.Actor, req run.Request) (run.Claimed, error)
}

// ClaimRun claims the run of a step. It can be repeated: a step always gets the same run.
// It exists only in the builds of the crash rig.
func (a *Action) ClaimRun(ctx context.Context, in flow.InlineStep) (flow.RunRef, error) {
	who := actor.Actor{Kind: actor.Key, TenantID: in.TenantID, ID: in.KeyID}
	path := "steps/" + strconv.Itoa(in.Index)
	claimed, err := a.runs.(claimer).Claim(ctx, who, run.Request{
		Verb: in.Call.Verb, Args: in.Call.Args, Metadata: json.RawMessage(`{}`),
		Origin:  run.Origin{Kind: actor.Map, ParentID: &in.WorkflowID, Step: &path, WorkflowID: in.WorkflowID, Driver: flow.DriverMap},
		StepKey: run.StepKey(in.WorkflowID, path, 0, 1),
	})
	return claimed.Ref(), applicationError(err)
}
