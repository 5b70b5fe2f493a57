//go:build chaos

package worker

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/workflows"
)

// registerForTests adds what exists only in the builds of the crash rig.
func registerForTests(r worker.Registry, d Deps) {
	r.RegisterWorkflowWithOptions(workflows.InlineSteps, workflow.RegisterOptions{Name: flow.WorkflowInlineSteps})
	register(r, flow.ClaimRun, d.Action.ClaimRun)
}
