// Package worker registers workflows and activities on task queues.
package worker

import (
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/activities"
	"agentruntime/internal/kernel/flow"
	"agentruntime/workflows"
)

// Concurrency of one worker process. Local activities wait on the provider most of
// the time, so many run at once; pollers are few because eager starts and
// Update-with-Start bring most tasks without a poll.
const (
	concurrentWorkflowTasks   = 256
	concurrentLocalActivities = 512
	workflowTaskPollers       = 8
)

// Deps are what the registered code needs.
type Deps struct {
	Client client.Client
	Action *activities.Action
	// DrainTimeout bounds how long Stop waits for tasks under way.
	DrainTimeout time.Duration
}

// New returns the worker of action runs; the caller starts and stops it.
func New(d Deps) (worker.Worker, error) {
	if d.Client == nil || d.Action == nil {
		return nil, errors.New("worker: client and activities are required")
	}
	worker.SetStickyWorkflowCacheSize(flow.CachedWorkflows) // of the process: the SDK has no other
	w := worker.New(d.Client, flow.QueueActions, worker.Options{
		MaxConcurrentWorkflowTaskExecutionSize:  concurrentWorkflowTasks,
		MaxConcurrentLocalActivityExecutionSize: concurrentLocalActivities,
		MaxConcurrentWorkflowTaskPollers:        workflowTaskPollers,
		DisableRegistrationAliasing:             true,
		// Nothing runs as a regular activity yet: no poll loop for them.
		LocalActivityWorkerOnly: true,
		WorkerStopTimeout:       d.DrainTimeout,
	})
	w.RegisterWorkflowWithOptions(workflows.ActionRun, workflow.RegisterOptions{Name: flow.WorkflowActionRun})
	w.RegisterActivityWithOptions(d.Action.GovernRun, activity.RegisterOptions{Name: flow.ActivityGovernRun})
	w.RegisterActivityWithOptions(d.Action.SendRun, activity.RegisterOptions{Name: flow.ActivitySendRun})
	w.RegisterActivityWithOptions(d.Action.DecideRun, activity.RegisterOptions{Name: flow.ActivityDecideRun})
	w.RegisterActivityWithOptions(d.Action.RejectRun, activity.RegisterOptions{Name: flow.ActivityRejectRun})
	return w, nil
}
