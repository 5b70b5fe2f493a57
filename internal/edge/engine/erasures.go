package engine

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"agentruntime/internal/base/flow"
)

// StartErasure starts the workflow that erases a customer, unless it runs already. The error is
// the fault SERVICE_UNAVAILABLE.
func (e *Engine) StartErasure(ctx context.Context, ref flow.CustomerRef) error {
	opts := client.StartWorkflowOptions{
		ID:                       flow.ErasureWorkflowID(ref),
		TaskQueue:                flow.QueueCustomers,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            flow.ErasureSummary,
	}
	opts.TypedSearchAttributes, _ = e.attributes.of(flow.Listing{Kind: flow.KindErasure, Tenant: ref.TenantID})
	_, err := e.client.ExecuteWorkflow(ctx, opts, flow.WorkflowEraseCustomer, ref)
	return unavailable(err)
}
