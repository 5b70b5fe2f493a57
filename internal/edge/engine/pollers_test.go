package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentruntime/internal/edge/engine"
)

// DescribeTaskQueue tells which workers have polled, and when they did last.
func (s *server) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest) (*workflowservice.DescribeTaskQueueResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &workflowservice.DescribeTaskQueueResponse{}
	for _, at := range s.polls {
		out.Pollers = append(out.Pollers, &taskqueuepb.PollerInfo{LastAccessTime: timestamppb.New(at)})
	}
	return out, nil
}

func TestPolledKnowsWorkersThatPollNow(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	e := s.dial(t, engine.LaneSplit)
	require.ErrorIs(t, e.Polled(t.Context()), engine.ErrNoWorker)
	s.polls = []time.Time{time.Now().Add(-2 * time.Minute)}
	require.ErrorIs(t, e.Polled(t.Context()), engine.ErrNoWorker, "it is gone")
	s.polls = append(s.polls, time.Now().Add(-time.Minute))
	require.NoError(t, e.Polled(t.Context()), "a poll lasts a minute")
}
