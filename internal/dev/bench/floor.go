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

// stockName names the floor on the server as `temporal server start-dev` runs it.
const stockName = "floor, start-dev"

// configurations tells what the two floors run on.
const configurations = `configurations
  floor, start-dev: one SQLite database for history and visibility, 1 shard, the server's default settings
  floor, and all else: history in SQLite (WAL, synchronous NORMAL), visibility in Postgres (synchronous_commit off, three indexes),
    4 shards, 1 task queue partition, queues polled up to 1000 times a second and shard, 16 queue workers, no rate limits, no gRPC compression

`

// stockFloor measures the bare workflow at 16 clients on a server of its own that is
// configured as start-dev's is.
func (b *benchmark) stockFloor(ctx context.Context, dir string) (Sample, error) {
	addr, stopServer, err := b.deps.StartStock(ctx, dir)
	if err != nil {
		return Sample{}, err
	}
	defer stopServer()
	op, stop, err := b.floorOn(addr)
	if err != nil {
		return Sample{}, err
	}
	defer stop()
	const clients = 16
	cost := func() Cost { return Cost{CPU: CPU()} }
	Load(ctx, clients, time.Second, cost, op) // warm up
	samples := make([]Sample, rounds)
	for i := range samples {
		samples[i] = Load(ctx, clients, b.Round, cost, op)
	}
	m := Median(samples)
	if m.Errors > 0 {
		return m, fmt.Errorf("bench: %s: %w", stockName, m.FirstError)
	}
	return m, nil
}

// floorOn starts the bare workflow's worker against a server and returns the operation.
func (b *benchmark) floorOn(addr string) (Op, func(), error) {
	const queue = "floor"
	c, err := temporalclient.Dial(temporalclient.Options{
		HostPort: addr, Namespace: b.deps.Namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: temporalclient.ConnectionOptions{GrpcCompression: &temporalclient.GrpcCompressionNone{}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("bench: floor: %w", err)
	}
	w := worker.New(c, queue, worker.Options{MaxConcurrentWorkflowTaskPollers: 8, LocalActivityWorkerOnly: true})
	w.RegisterWorkflow(bareWorkflow)
	if err := w.Start(); err != nil {
		c.Close()
		return nil, nil, fmt.Errorf("bench: floor: %w", err)
	}
	op := func(ctx context.Context, _ int64) error {
		run, err := c.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{ID: uuid.NewString(), TaskQueue: queue, EnableEagerStart: true}, bareWorkflow)
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	}
	return op, func() { w.Stop(); c.Close() }, nil
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
