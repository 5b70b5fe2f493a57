package engine

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/base/flow"
)

// StartDelivery starts the workflow of a round of a delivery, once. A start that was made before
// is no error. The error is the fault SERVICE_UNAVAILABLE.
func (e *Engine) StartDelivery(ctx context.Context, in flow.DeliveryInput, listing flow.Listing) error {
	opts := client.StartWorkflowOptions{
		ID:                       in.WorkflowID(),
		TaskQueue:                flow.QueueDeliveries,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:            listing.Summary(),
		StaticDetails:            listing.Details,

		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
	opts.TypedSearchAttributes, in.ShowsState = e.attributes.of(listing)
	_, err := e.client.ExecuteWorkflow(ctx, opts, flow.WorkflowDelivery, in)
	if _, invalid := errors.AsType[*serviceerror.InvalidArgument](err); invalid && e.attributes.drop() {
		// An attribute was removed since the last look.
		opts.TypedSearchAttributes, in.ShowsState = temporal.SearchAttributes{}, false
		_, err = e.client.ExecuteWorkflow(ctx, opts, flow.WorkflowDelivery, in)
	}
	if _, already := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); already {
		return nil
	}
	return unavailable(err)
}
