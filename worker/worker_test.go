package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"agentruntime/activities"
	"agentruntime/worker"
)

// The SDK panics on a name that is registered twice and on a function that is no activity.
// Its test environment hides both; a worker with a client that never dials does not.
func TestWorkersRegisterEverything(t *testing.T) {
	t.Parallel()
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	require.NoError(t, err)
	defer c.Close()
	workers, err := worker.New(worker.Deps{Client: c, Action: &activities.Action{}, Delivery: &activities.Delivery{}, Customers: &activities.Customers{}, Maps: &activities.Maps{}, Turns: &activities.Turns{}, DrainTimeout: time.Second})
	require.NoError(t, err)
	require.NotNil(t, workers)
}

func TestWorkersWithoutActivitiesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := worker.New(worker.Deps{})
	require.ErrorContains(t, err, "client and activities are required")
}
