package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/kernel/flow"
)

// listState sets the state of a workflow in Temporal's list, by which operators filter. It costs an
// event and a write of the list.
func listState(ctx workflow.Context, state string) error {
	return workflow.UpsertTypedSearchAttributes(ctx, stateKey().ValueSet(state))
}

func stateKey() temporal.SearchAttributeKeyKeyword {
	return temporal.NewSearchAttributeKeyKeyword(string(flow.AttributeState))
}
