package engine_test

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"agentruntime/internal/edge/engine"
)

// server stands for a Temporal server that knows search attributes and takes starts.
type server struct {
	workflowservice.UnimplementedWorkflowServiceServer
	operatorservice.UnimplementedOperatorServiceServer

	addr string
	mu   sync.Mutex
	// attributes are those of the namespace.
	attributes map[string]enumspb.IndexedValueType
	// refuses is the error of a change, hides that of a list; before runs ahead of a change.
	refuses, hides error
	before         func()
	starts         []*workflowservice.StartWorkflowExecutionRequest
	// polls are when workers have polled last.
	polls []time.Time
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{attributes: map[string]enumspb.IndexedValueType{}}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	// As Temporal does, tell errors by their status.
	g := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		res, err := next(ctx, req)
		return res, serviceerror.ToStatus(err).Err()
	}))
	workflowservice.RegisterWorkflowServiceServer(g, s)
	operatorservice.RegisterOperatorServiceServer(g, s)
	probe := health.NewServer()
	probe.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(g, probe)
	var served sync.WaitGroup
	served.Go(func() { _ = g.Serve(l) })
	t.Cleanup(func() { g.Stop(); served.Wait() })
	return s
}

func (s *server) dial(t *testing.T, lane engine.Lane) *engine.Engine {
	t.Helper()
	e, err := engine.Dial(engine.Config{
		Address: s.addr, Namespace: "default", Lane: lane, CodecID: "k1", CodecKey: make([]byte, 32), Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// set changes an attribute of the namespace; INDEXED_VALUE_TYPE_UNSPECIFIED removes it.
func (s *server) set(name string, kind enumspb.IndexedValueType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attributes[name] = kind
}

func (*server) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{EagerWorkflowStart: true}}, nil
}

func (s *server) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest) (*operatorservice.ListSearchAttributesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: maps.Clone(s.attributes)}, s.hides
}

func (s *server) AddSearchAttributes(_ context.Context, req *operatorservice.AddSearchAttributesRequest) (*operatorservice.AddSearchAttributesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		s.before()
	}
	if s.refuses != nil {
		return nil, s.refuses
	}
	maps.Copy(s.attributes, req.SearchAttributes)
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

// start takes a start whose search attributes are all registered, as Temporal does.
func (s *server) start(req *workflowservice.StartWorkflowExecutionRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range req.GetSearchAttributes().GetIndexedFields() {
		if s.attributes[name] != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			return serviceerror.NewInvalidArgument("Namespace default has no mapping defined for search attribute " + name)
		}
	}
	s.starts = append(s.starts, req)
	return nil
}

func (s *server) StartWorkflowExecution(_ context.Context, req *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "r"}, s.start(req)
}

// ExecuteMultiOperation is the start of the split lane: a start and an update.
func (s *server) ExecuteMultiOperation(_ context.Context, req *workflowservice.ExecuteMultiOperationRequest) (*workflowservice.ExecuteMultiOperationResponse, error) {
	if err := s.start(req.Operations[0].GetStartWorkflow()); err != nil {
		return nil, serviceerror.NewMultiOperationExecution("Update-with-Start could not be executed.",
			[]error{err, serviceerror.NewMultiOperationAborted("Operation was aborted.")})
	}
	return &workflowservice.ExecuteMultiOperationResponse{Responses: []*workflowservice.ExecuteMultiOperationResponse_Response{
		{Response: &workflowservice.ExecuteMultiOperationResponse_Response_StartWorkflow{StartWorkflow: &workflowservice.StartWorkflowExecutionResponse{RunId: "r"}}},
		{Response: &workflowservice.ExecuteMultiOperationResponse_Response_UpdateWorkflow{UpdateWorkflow: &workflowservice.UpdateWorkflowExecutionResponse{
			Stage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED,
		}}},
	}}, nil
}
