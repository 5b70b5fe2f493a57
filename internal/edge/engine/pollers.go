package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"agentruntime/internal/base/flow"
)

// ErrNoWorker means that Temporal knows no worker that asks for work.
var ErrNoWorker = errors.New("no worker polls")

// pollAge is how long after its last poll a worker counts as one that polls. A poll lasts up to a
// minute (matching.longPollExpirationInterval of the server).
const pollAge = 75 * time.Second

// Polled returns ErrNoWorker where no worker asks for the work of runs. After a crash of the last
// worker it takes up to 75 s until Polled says so.
func (e *Engine) Polled(ctx context.Context) error {
	queue, err := e.client.DescribeTaskQueue(ctx, flow.QueueActions, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return fmt.Errorf("engine: pollers: %w", err)
	}
	for _, poller := range queue.GetPollers() {
		if time.Since(poller.GetLastAccessTime().AsTime()) < pollAge {
			return nil
		}
	}
	return ErrNoWorker
}
