// Package engine is the only user of the Temporal client: typed starts, id policies, the
// payload codec, and the translation of Temporal's errors to faults. The run domain and the
// desk call it through interfaces of their own. Workflows and activities never do.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// Lane is how a workflow is started.
type Lane string

// The lanes. Both run the same workflow; Temporal cannot combine the two.
const (
	// LaneEager gets the first workflow task with the answer to the start. It needs a
	// worker in the same process on the same client, and saves a dispatch.
	LaneEager Lane = "eager"
	// LaneSplit is Update-with-Start, for an API in another process than its workers. The
	// update makes the server hand the first task straight to a waiting poller.
	LaneSplit Lane = "split"
)

// Config says where Temporal is and how runs are started there.
type Config struct {
	Address   string // host:port
	Namespace string
	Lane      Lane
	CodecKey  []byte // 32 bytes, AES-256
	CodecID   string // names the key in each payload
	Log       *slog.Logger
}

// Engine starts workflows, sends to them, and asks about them.
type Engine struct {
	client    client.Client
	namespace string
	lane      Lane
	// attributes are the search attributes that starts may set.
	attributes attributes
}

// Dial returns the engine without waiting for Temporal: a service that starts before
// Temporal becomes ready when Temporal is. It returns an error for a wrong setting.
func Dial(cfg Config) (*Engine, error) {
	if cfg.Lane != LaneEager && cfg.Lane != LaneSplit {
		return nil, fmt.Errorf("engine: unknown start lane %q: use eager or split", cfg.Lane)
	}
	codec, err := newCodec(cfg.CodecID, cfg.CodecKey)
	if err != nil {
		return nil, err
	}
	dc := newConverter(codec)
	c, err := client.NewLazyClient(client.Options{
		HostPort:      cfg.Address,
		Namespace:     cfg.Namespace,
		DataConverter: dc,
		FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
			DataConverter: dc, EncodeCommonAttributes: true,
		}),
		Logger: log.NewStructuredLogger(cfg.Log),
		ConnectionOptions: client.ConnectionOptions{
			// The messages are small and the server is near. Compression costs a tenth of the rate.
			GrpcCompression: &client.GrpcCompressionNone{},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("engine: dial: %w", err)
	}
	return &Engine{client: c, namespace: cfg.Namespace, lane: cfg.Lane}, nil
}

// Client returns the client for the worker of this process. Nothing else may use it.
func (e *Engine) Client() client.Client { return e.client }

// Converter returns the converter of the engine's client, for tests that read histories. It
// returns an error for a wrong key.
func Converter(id string, key []byte) (converter.DataConverter, error) {
	codec, err := newCodec(id, key)
	if err != nil {
		return nil, err
	}
	return newConverter(codec), nil
}

// Close closes the connection.
func (e *Engine) Close() { e.client.Close() }

// Ready returns nil where Temporal answers. The first time that it does, Ready looks for the
// search attributes too: a process that is ready starts its workflows with them.
func (e *Engine) Ready(ctx context.Context) error {
	if _, err := e.client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("engine: temporal: %w", err)
	}
	if e.attributes.found.Load() == nil {
		// Temporal may refuse to tell; Warnings says so.
		_ = e.Look(ctx)
	}
	return nil
}

// readyPoll is how often AwaitReady asks.
const readyPoll = 200 * time.Millisecond

// AwaitReady returns when Temporal answers, or with ctx's error and the last reason.
func (e *Engine) AwaitReady(ctx context.Context) error {
	for {
		err := e.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(readyPoll):
		}
	}
}

// A refused id starts again only when its older workflow has closed, a few milliseconds after
// its row ended: how often StartRun asks, and for how long.
const (
	closingPoll = 10 * time.Millisecond
	closingWait = 3 * time.Second
)

// StartRun starts the workflow of a claim. A first attempt never starts twice, not even after
// its workflow closed. For a later attempt the fence found that nothing was sent, so it may
// follow a closed workflow. A start that was made before is no error. The error is the fault
// SERVICE_UNAVAILABLE.
func (e *Engine) StartRun(ctx context.Context, in flow.ActionRunInput, workflowID string, listing flow.Listing) error {
	opts := e.once(workflowID, flow.QueueActions, listing)
	if in.Attempt > 1 {
		opts.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	opts.TypedSearchAttributes, in.ShowsState = e.attributes.of(listing)
	until := time.Now().Add(closingWait)
	for {
		err := e.start(ctx, opts, flow.WorkflowActionRun, in)
		if e.refusedAttributes(err) {
			opts.TypedSearchAttributes, in.ShowsState = temporal.SearchAttributes{}, false
			err = e.start(ctx, opts, flow.WorkflowActionRun, in)
		}
		if _, already := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); !already {
			return unavailable(err)
		}
		if in.Attempt == 1 || time.Now().After(until) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(closingPoll):
		}
	}
}

// StartMap starts the workflow of an attempt of an execution of a Map. Each attempt has a workflow
// of its own, so none starts twice. A start that was made before is no error. The error is the
// fault SERVICE_UNAVAILABLE.
func (e *Engine) StartMap(ctx context.Context, in flow.MapInput, workflowID string, listing flow.Listing) error {
	opts := e.once(workflowID, flow.QueueMaps, listing)
	opts.TypedSearchAttributes, in.ShowsState = e.attributes.of(listing)
	err := e.start(ctx, opts, flow.WorkflowMapRun, in)
	if e.refusedAttributes(err) {
		opts.TypedSearchAttributes, in.ShowsState = temporal.SearchAttributes{}, false
		err = e.start(ctx, opts, flow.WorkflowMapRun, in)
	}
	if _, already := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); already {
		return nil
	}
	return unavailable(err)
}

// StartTurn starts the workflow of a message to an agent, once. A start that was made before is no
// error. The error is the fault SERVICE_UNAVAILABLE.
func (e *Engine) StartTurn(ctx context.Context, in flow.TurnInput, workflowID string, listing flow.Listing) error {
	opts := e.once(workflowID, flow.QueueTurns, listing)
	opts.TypedSearchAttributes, in.ShowsState = e.attributes.of(listing)
	in.ShowsHold = in.ShowsState && e.attributes.has(flow.AttributeVerb)
	err := e.start(ctx, opts, flow.WorkflowAgentTurn, in)
	if e.refusedAttributes(err) {
		opts.TypedSearchAttributes, in.ShowsState = temporal.SearchAttributes{}, false
		in.ShowsHold = false
		err = e.start(ctx, opts, flow.WorkflowAgentTurn, in)
	}
	if _, already := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); already {
		return nil
	}
	return unavailable(err)
}

// StartApply starts the workflow that applies the changes of a dry run, once. A start that was made
// before is no error. The error is the fault SERVICE_UNAVAILABLE.
func (e *Engine) StartApply(ctx context.Context, in flow.ApplyRef, listing flow.Listing) error {
	opts := e.once(flow.ApplyWorkflowID(in), flow.QueueMaps, listing)
	opts.TypedSearchAttributes, _ = e.attributes.of(listing)
	err := e.start(ctx, opts, flow.WorkflowApplyChanges, in)
	if e.refusedAttributes(err) {
		opts.TypedSearchAttributes = temporal.SearchAttributes{}
		err = e.start(ctx, opts, flow.WorkflowApplyChanges, in)
	}
	if _, already := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); already {
		return nil
	}
	return unavailable(err)
}

// refusedAttributes reports whether a start failed because a search attribute was removed since the
// last look. No execution fails because of that: it starts without.
func (e *Engine) refusedAttributes(err error) bool {
	_, invalid := errors.AsType[*serviceerror.InvalidArgument](err)
	return invalid && e.attributes.drop()
}

// once returns the options of a workflow whose id starts once.
func (e *Engine) once(workflowID, queue string, listing flow.Listing) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       workflowID,
		TaskQueue:                queue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:            listing.Summary(),
		StaticDetails:            listing.Details,
		// Without this a start that was made before would look like a new one.
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
}

func (e *Engine) start(ctx context.Context, opts client.StartWorkflowOptions, workflow string, in any) error {
	if e.lane == LaneEager {
		opts.EnableEagerStart = true
		_, err := e.client.ExecuteWorkflow(ctx, opts, workflow, in)
		return err
	}
	_, err := e.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: e.client.NewWithStartWorkflowOperation(opts, workflow, in),
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName:   flow.UpdateAdmit,
			WaitForStage: client.WorkflowUpdateStageAccepted,
		},
	})
	var late *client.WorkflowUpdateServiceTimeoutOrCanceledError
	if errors.As(err, &late) && e.stored(ctx, opts.ID) {
		// No worker has taken the start yet.
		return nil
	}
	return err
}

// storedLimit bounds the question whether a start is stored.
const storedLimit = 2 * time.Second

// stored reports whether Temporal knows a workflow of the id. An update that timed out does
// not say whether a worker is missing or the server is away.
func (e *Engine) stored(ctx context.Context, workflowID string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedLimit)
	defer cancel()
	_, found, err := e.IsOpen(ctx, workflowID)
	return err == nil && found
}

// IsOpen reports whether the newest workflow of the id is open, and whether Temporal knows
// one at all. The error is the fault SERVICE_UNAVAILABLE.
func (e *Engine) IsOpen(ctx context.Context, workflowID string) (open, found bool, err error) {
	d, err := e.client.DescribeWorkflowExecution(ctx, workflowID, "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, false, nil
	case err != nil:
		return false, false, unavailable(err)
	default:
		return d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, true, nil
	}
}

// Nudge tells the newest workflow of the id to read its row again. open is false where none
// is open. The error is the fault SERVICE_UNAVAILABLE.
func (e *Engine) Nudge(ctx context.Context, workflowID string) (open bool, err error) {
	err = e.client.SignalWorkflow(ctx, workflowID, "", flow.SignalRecheck, nil)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return false, nil
	}
	return err == nil, unavailable(err)
}

// decideLimit is how long a decision waits for a worker. The answer to a counted decision
// comes when its workflow task ends. The SDK ends a long task after 8 s.
const decideLimit = 20 * time.Second

// Decide hands a decision to the workflow that waits for it and returns the result. The code
// is APPROVAL_NOT_PENDING where the workflow waits for another approval. open is false where
// no workflow of the id is open. The error is the fault SERVICE_UNAVAILABLE, after which the
// decision may still be counted.
func (e *Engine) Decide(ctx context.Context, workflowID string, d flow.Decision) (out flow.Decided, open bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, decideLimit)
	defer cancel()
	h, err := e.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateName: flow.UpdateDecide, UpdateID: d.DecisionID.String(),
		Args: []any{d}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, &out)
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return flow.Decided{}, false, nil
	}
	if app, refused := errors.AsType[*temporal.ApplicationError](err); refused && app.Type() == string(fault.CodeApprovalNotPending) {
		return flow.Decided{Code: fault.CodeApprovalNotPending, Closed: true}, true, nil
	}
	if _, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err); late {
		f := fault.New(fault.CodeServiceUnavailable, "No worker has taken the decision yet. It may still be counted: read the approval before you decide again.")
		f.Retryable = true
		return out, true, f.Because(err)
	}
	return out, true, unavailable(err)
}

// unavailable turns any failure to reach Temporal into the fault SERVICE_UNAVAILABLE, which
// callers may repeat.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	f := fault.New(fault.CodeServiceUnavailable, "The workflow engine cannot be reached.").Because(err)
	f.Retryable = true
	return f
}
