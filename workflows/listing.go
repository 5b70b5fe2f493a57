package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// listState sets the state of a workflow in Temporal's list, by which operators filter. It costs an
// event and a write of the list.
func listState(ctx workflow.Context, state string) error {
	return workflow.UpsertTypedSearchAttributes(ctx, stateKey().ValueSet(state))
}

// listEnd has the list say how what a workflow drives has ended, where the list said something else, or where
// people look for it. One that completed without a wait is listed without a state, as it began.
func listEnd(ctx workflow.Context, end stepmachine.Status) error {
	was, listed := workflow.GetTypedSearchAttributes(ctx).GetKeyword(stateKey())
	if listed && was == string(end) || !listed && end == stepmachine.StatusCompleted {
		return nil
	}
	return listState(ctx, string(end))
}

func stateKey() temporal.SearchAttributeKeyKeyword {
	return temporal.NewSearchAttributeKeyKeyword(string(flow.AttributeState))
}
