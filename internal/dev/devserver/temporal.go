// Package devserver runs, inside one process, what the product needs around it: a
// Temporal server and its web interface.
// Package postgres below it runs the database. It is the only package that links the
// Temporal server (200 MB), so only cmd/agentruntime-dev and tests import it.
package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/devserver/datadir"
	"agentruntime/internal/dev/devserver/port"
)

const (
	namespaceRetention = 72 * time.Hour
	temporalReadyWait  = 30 * time.Second
	temporalReadyPoll  = 20 * time.Millisecond
	stopWait           = 10 * time.Second
)

// TemporalConfig says where the server listens and keeps its data.
type TemporalConfig struct {
	// FrontendAddr is the host:port of the gRPC frontend; port 0 picks a free one.
	FrontendAddr string
	// Dir has the main store (SQLite). It is made if missing.
	Dir string
	// VisibilityURL is a Postgres database for the visibility records; it doubles
	// the rate of short workflows. Empty: the main store takes them.
	VisibilityURL string
	// Shards of the history service: 1 to 4 for one machine. Fixed at first start.
	Shards int
	// Namespace is registered before the server is ready.
	Namespace string
	// Log gets what the server says from warnings up.
	Log *slog.Logger

	// CountWrites is told of every write to the main store, by the store's name for
	// it (UpdateWorkflowExecution, …). For measurements; nil counts nothing.
	CountWrites func(operation string)

	// Stock switches the settings in serverSettings off: the server as
	// `temporal server start-dev` runs it, for comparison.
	Stock bool
}

// Temporal is a running server with its four services.
type Temporal struct {
	// Addr is the host:port of the frontend.
	Addr string

	server   temporal.Server
	lock     *datadir.Lock
	stopping atomic.Bool
	stopOnce sync.Once
	stopErr  error
}

// StartTemporal returns once the server takes calls for the namespace. A second
// start with the same Dir goes on where the first one ended, however it ended.
func StartTemporal(ctx context.Context, cfg TemporalConfig) (_ *Temporal, err error) {
	addr, err := port.Resolve("temporal", cfg.FrontendAddr)
	if err != nil {
		return nil, err
	}
	lock, err := datadir.Acquire(ctx, cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("temporal: %w", err)
	}
	worker.SetStickyWorkflowCacheSize(flow.CachedWorkflows) // before the server's own workers
	t := &Temporal{Addr: addr, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("temporal: %w", err), t.Stop())
		}
	}()
	logger := &serverLogger{log: cfg.Log, stopping: &t.stopping}
	main := mainStore(filepath.Join(cfg.Dir, "temporal.sqlite"))
	if err := prepareMainStore(ctx, main, cfg.Namespace); err != nil {
		return nil, err
	}
	visibility, err := prepareVisibility(cfg.VisibilityURL, logger)
	if err != nil {
		return nil, err
	}
	serverConfig, hosts, err := serverConfig(addr, cfg.Shards, main, visibility)
	if err != nil {
		return nil, err
	}
	options := []temporal.ServerOption{
		temporal.WithConfig(serverConfig),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts), // no gossip: faster, and no dead members after kill -9
		temporal.WithLogger(logger),
		temporal.WithDynamicConfigClient(serverSettings(cfg.Stock)),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
	}
	if cfg.CountWrites != nil {
		options = append(options, temporal.WithCustomMetricsHandler(writeCounter{Handler: metrics.NoopMetricsHandler, count: cfg.CountWrites}))
	}
	t.server, err = temporal.NewServer(options...)
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	if err := t.server.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return t, t.awaitReady(ctx, cfg.Namespace)
}

// awaitReady returns when the frontend knows the namespace.
func (t *Temporal) awaitReady(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, temporalReadyWait)
	defer cancel()
	c, err := client.NewLazyClient(client.Options{HostPort: t.Addr, Logger: quietSDK{}})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	for {
		_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", errors.Join(ctx.Err(), err))
		case <-time.After(temporalReadyPoll):
		}
	}
}

// Stop ends the services. What was accepted is in the stores already. Calling it
// again does nothing.
func (t *Temporal) Stop() error {
	t.stopOnce.Do(func() {
		t.stopping.Store(true)
		if t.server != nil {
			stopped := make(chan error, 1)
			go func() { stopped <- t.server.Stop() }()
			select {
			case t.stopErr = <-stopped:
			case <-time.After(stopWait):
				t.stopErr = errors.New("temporal: did not stop in time")
			}
		}
		t.stopErr = errors.Join(t.stopErr, t.lock.Release())
	})
	return t.stopErr
}

// staticHosts names each service's only host.
func staticHosts(ports map[primitives.ServiceName]string) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts, len(ports))
	for name, addr := range ports {
		hosts[name] = static.Hosts{Self: addr, All: []string{addr}}
	}
	return hosts
}
