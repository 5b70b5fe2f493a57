package bench

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const floorQueue = "floor"

// startFloor starts the worker of the bare workflow.
func (b *benchmark) startFloor() error {
	c, err := temporalclient.Dial(temporalclient.Options{
		HostPort: b.service.TemporalAddress, Namespace: b.service.Namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: temporalclient.ConnectionOptions{GrpcCompression: &temporalclient.GrpcCompressionNone{}},
	})
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	w := worker.New(c, floorQueue, worker.Options{MaxConcurrentWorkflowTaskPollers: 8, LocalActivityWorkerOnly: true})
	w.RegisterWorkflow(bareWorkflow)
	if err := w.Start(); err != nil {
		c.Close()
		return fmt.Errorf("bench: floor: %w", err)
	}
	b.floor = c
	b.later(func() { w.Stop(); c.Close() })
	return nil
}

// onFloor runs the bare workflow.
func (b *benchmark) onFloor(ctx context.Context) error {
	options := temporalclient.StartWorkflowOptions{ID: uuid.NewString(), TaskQueue: floorQueue, EnableEagerStart: true}
	run, err := b.floor.ExecuteWorkflow(ctx, options, bareWorkflow)
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

// bareWorkflow is the least that a run can cost: two local activities that do nothing.
func bareWorkflow(ctx workflow.Context) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Second})
	for range 2 {
		if err := workflow.ExecuteLocalActivity(ctx, nothing).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context) error { return nil }
