package cli_test

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/process/cli"
)

// guarded stands for a Temporal server whose operator API is closed to us.
type guarded struct {
	operatorservice.UnimplementedOperatorServiceServer
	workflowservice.UnimplementedWorkflowServiceServer
}

func (guarded) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest) (*operatorservice.ListSearchAttributesResponse, error) {
	return nil, status.Error(codes.PermissionDenied, "Request unauthorized.")
}

// The service works without search attributes. So a Temporal that refuses them fails no
// deployment, and the one who deploys is told.
func TestMigrateWithoutARightInTemporalSucceedsAndSaysSo(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer()
	operatorservice.RegisterOperatorServiceServer(g, guarded{})
	workflowservice.RegisterWorkflowServiceServer(g, guarded{})
	probe := health.NewServer()
	probe.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(g, probe)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	t.Setenv("MIGRATE_DATABASE_URL", testkit.Database(t).AdminURL)
	t.Setenv("TEMPORAL_ADDRESS", l.Addr().String())

	var told bytes.Buffer
	root := cli.New()
	root.SetArgs([]string{"migrate"})
	root.SetOut(&told)
	require.NoError(t, root.ExecuteContext(t.Context()))
	require.Contains(t, told.String(), "The database is at version ")
	require.Contains(t, told.String(), "Search attributes are not registered in the namespace default")
	require.Contains(t, told.String(), "Request unauthorized.")
}
