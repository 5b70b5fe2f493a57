// Package worker registers workflows and activities on task queues, and says how much of a
// queue one process does at once. The composition root starts and stops the workers. The
// package contains no step of a workflow and no rule of the domain.
package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/activities"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/workflows"
)

// Deps are what the registered code needs.
type Deps struct {
	Client client.Client
	Action *activities.Action
	// Delivery has the attempts of webhook deliveries.
	Delivery *activities.Delivery
	// Customers erase what is stored about a customer.
	Customers *activities.Customers
	// Maps are the steps of executions of Maps.
	Maps *activities.Maps
	// Turns are the steps of messages to agents.
	Turns *activities.Turns
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
		{
			name: flow.QueueMaps,
			// As that of action runs: a step waits only a moment for its provider.
			options: worker.Options{
				MaxConcurrentWorkflowTaskExecutionSize:  256,
				MaxConcurrentLocalActivityExecutionSize: 512,
				MaxConcurrentWorkflowTaskPollers:        8,
				LocalActivityWorkerOnly:                 true,
			},
			register: registerMaps,
		},
		{
			name: flow.QueueModels,
			// An answer of a model takes seconds, and its activity does nothing but wait for it.
			options: worker.Options{
				MaxConcurrentActivityExecutionSize: activities.AskSlots,
				MaxConcurrentActivityTaskPollers:   2,
				DisableWorkflowWorker:              true,
			},
			register: registerModels,
		},
		{
			name: flow.QueueTurns,
			// An answer of a model takes seconds, and its activity does nothing but wait for it. Workflow and
			// activities share the queue, so that the server hands an answer to the worker that asks for it.
			options: worker.Options{
				MaxConcurrentWorkflowTaskExecutionSize:  128,
				MaxConcurrentLocalActivityExecutionSize: 256,
				MaxConcurrentActivityExecutionSize:      activities.AnswerSlots,
				MaxConcurrentEagerActivityExecutionSize: 256,
				MaxConcurrentWorkflowTaskPollers:        4,
				MaxConcurrentActivityTaskPollers:        4,
			},
			register: registerTurns,
		},
		{
			name: flow.QueueDeliveries,
			// An attempt waits for its receiver up to 15 s. One whose webhook has no place ends at once,
			// so slow webhooks do not take all of these.
			options: worker.Options{
				MaxConcurrentWorkflowTaskExecutionSize: 64,
				MaxConcurrentActivityExecutionSize:     256,
				MaxConcurrentWorkflowTaskPollers:       2,
				MaxConcurrentActivityTaskPollers:       2,
			},
			register: registerDeliveries,
		},
		{
			name: flow.QueueCustomers,
			// Erasures take turns: they are rare, and none is urgent by the second.
			options: worker.Options{
				MaxConcurrentActivityExecutionSize: 2,
				MaxConcurrentActivityTaskPollers:   1,
				MaxConcurrentWorkflowTaskPollers:   2, // the fewest that the SDK takes
			},
			register: registerCustomers,
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

func registerMaps(r worker.Registry, d Deps) {
	r.RegisterWorkflowWithOptions(workflows.MapRun, workflow.RegisterOptions{Name: flow.WorkflowMapRun})
	register(r, flow.BeginMap, d.Maps.BeginMap)
	register(r, flow.CallFromMap, d.Maps.CallFromMap)
	register(r, flow.GoOnWithCall, d.Maps.GoOnWithCall)
	register(r, flow.StopCallOfMap, d.Maps.StopCallOfMap)
	register(r, flow.EvaluateInMap, d.Maps.EvaluateInMap)
	register(r, flow.StartMapOfMap, d.Maps.StartMapOfMap)
	register(r, flow.LookAtMapOfMap, d.Maps.LookAtMapOfMap)
	register(r, flow.StopMapOfMap, d.Maps.StopMapOfMap)
	register(r, flow.WriteMap, d.Maps.WriteMap)
	register(r, flow.LookAtMap, d.Maps.LookAtMap)
	register(r, flow.AskInMap, d.Maps.AskInMap)
	register(r, flow.CloseAskInMap, d.Maps.CloseAskInMap)
	register(r, flow.FinishMap, d.Maps.FinishMap)
	r.RegisterWorkflowWithOptions(workflows.ApplyChanges, workflow.RegisterOptions{Name: flow.WorkflowApplyChanges})
	register(r, flow.BeginChange, d.Maps.BeginChange)
	register(r, flow.GoOnWithChange, d.Maps.GoOnWithChange)
}

func registerModels(r worker.Registry, d Deps) {
	register(r, flow.AskModel, d.Maps.AskModel)
}

func registerTurns(r worker.Registry, d Deps) {
	r.RegisterWorkflowWithOptions(workflows.AgentTurn, workflow.RegisterOptions{Name: flow.WorkflowAgentTurn})
	register(r, flow.AnswerTurn, d.Turns.AnswerTurn)
	register(r, flow.CallFromTurn, d.Turns.CallFromTurn)
	register(r, flow.GoOnWithCall, d.Turns.GoOnWithCall)
	register(r, flow.StopCallOfMap, d.Turns.StopCall)
	register(r, flow.LookAtTurn, d.Turns.LookAtTurn)
	register(r, flow.ResumeTurn, d.Turns.ResumeTurn)
	register(r, flow.EndTurn, d.Turns.EndTurn)
	register(r, flow.StartFromTurn, d.Turns.StartFromTurn)
	register(r, flow.LookFromTurn, d.Turns.LookFromTurn)
}

func registerDeliveries(r worker.Registry, d Deps) {
	r.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: flow.WorkflowDelivery})
	register(r, flow.AttemptDelivery, d.Delivery.AttemptDelivery)
}

func registerCustomers(r worker.Registry, d Deps) {
	r.RegisterWorkflowWithOptions(workflows.EraseCustomer, workflow.RegisterOptions{Name: flow.WorkflowEraseCustomer})
	register(r, flow.EraseNext, d.Customers.EraseNext)
}

// register ties an activity to the name that the stubs in workflows call it by. Input and
// result of both must be the same types, or it does not compile.
func register[I, O any](r worker.Registry, name flow.Activity[I, O], do func(context.Context, I) (O, error)) {
	r.RegisterActivityWithOptions(func(ctx context.Context, in I) (out O, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = panicked(ctx, v)
			}
		}()
		return do(ctx, in)
	}, activity.RegisterOptions{Name: string(name)})
}

// panicked logs where a step panicked and returns its error. The value of a panic may quote
// what it failed on, and the SDK would write it to the history: operators can decode that.
func panicked(ctx context.Context, v any) error {
	activity.GetLogger(ctx).Error("a step panicked", "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
	return temporal.NewApplicationError("step panicked", string(fault.CodeInternal))
}

// Workers are the workers of all queues of one process.
type Workers struct{ list []worker.Worker }

// New returns the workers; the caller starts and stops them.
func New(d Deps) (*Workers, error) {
	if d.Client == nil || d.Action == nil || d.Delivery == nil || d.Customers == nil || d.Maps == nil || d.Turns == nil {
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
