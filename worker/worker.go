// Package worker registers workflows and activities on task queues, and says how much of a
// queue one process does at once. The composition root starts and stops the workers. The
// package contains no step of a workflow and no rule of the domain.
package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/activities"
	"agentruntime/internal/kernel/flow"
	"agentruntime/workflows"
)

// Deps are what the registered code needs.
type Deps struct {
	Client client.Client
	Action *activities.Action
	// DrainTimeout bounds how long Stop waits for tasks under way.
	DrainTimeout time.Duration
}

// A queue is one task queue: how much of it one process does at once, and what runs on it.
type queue struct {
	name     string
	options  worker.Options
	register func(worker.Registry, Deps)
}

// queues is the table of all task queues.
func queues() []queue {
	return []queue{
		{
			name: flow.QueueActions,
			// A step that sends waits only a moment for its provider, and half of these tasks
			// at most do so at once (internal/action/run/underway.go). Pollers are few, because eager starts and Update-with-Start bring most tasks
			// without a poll.
			options: worker.Options{
				MaxConcurrentWorkflowTaskExecutionSize:  256,
				MaxConcurrentLocalActivityExecutionSize: 512,
				MaxConcurrentWorkflowTaskPollers:        8,
				// Nothing runs as a regular activity here: no poll loop for them.
				LocalActivityWorkerOnly: true,
			},
			register: registerActions,
		},
	}
}

func registerActions(r worker.Registry, d Deps) {
	r.RegisterWorkflowWithOptions(workflows.ActionRun, workflow.RegisterOptions{Name: flow.WorkflowActionRun})
	register(r, flow.GovernRun, d.Action.GovernRun)
	register(r, flow.SendRun, d.Action.SendRun)
	register(r, flow.DecideRun, d.Action.DecideRun)
	register(r, flow.RejectRun, d.Action.RejectRun)
	register(r, flow.HandOverRun, d.Action.HandOverRun)
	register(r, flow.LookAtRun, d.Action.LookAtRun)
	register(r, flow.GiveUpRun, d.Action.GiveUpRun)
	registerForTests(r, d)
}

// register ties an activity to the name that the stubs in workflows call it by. Input and
// result of both must be the same types, or it does not compile.
func register[I, O any](r worker.Registry, name flow.Activity[I, O], do func(context.Context, I) (O, error)) {
	r.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: string(name)})
}

// Workers are the workers of all queues of one process.
type Workers struct{ list []worker.Worker }

// New returns the workers; the caller starts and stops them.
func New(d Deps) (*Workers, error) {
	if d.Client == nil || d.Action == nil {
		return nil, errors.New("worker: client and activities are required")
	}
	worker.SetStickyWorkflowCacheSize(flow.CachedWorkflows) // of the process: the SDK has no other
	all := &Workers{}
	for _, q := range queues() {
		q.options.DisableRegistrationAliasing = true
		q.options.WorkerStopTimeout = d.DrainTimeout
		w := worker.New(d.Client, q.name, q.options)
		q.register(w, d)
		all.list = append(all.list, w)
	}
	return all, nil
}

// Start begins to take tasks. Where one queue fails, those that had started are stopped.
func (w *Workers) Start() error {
	for i, one := range w.list {
		if err := one.Start(); err != nil {
			(&Workers{list: w.list[:i]}).Stop()
			return fmt.Errorf("worker: start: %w", err)
		}
	}
	return nil
}

// Stop lets the tasks under way finish, at most Deps.DrainTimeout for each queue.
func (w *Workers) Stop() {
	for _, one := range w.list {
		one.Stop()
	}
}
