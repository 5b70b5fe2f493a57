package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"agentruntime/internal/process/app"
	"agentruntime/internal/process/cli"
	"agentruntime/internal/process/config"
	"agentruntime/internal/process/memory"
)

// Defaults of the flags. The ports are the ones that people expect: 7233 is
// Temporal's own and 8233 that of its web interface in a development server.
const (
	defaultListen   = "127.0.0.1:8080"
	defaultTemporal = "127.0.0.1:7233"
	defaultUI       = "127.0.0.1:8233"
	defaultData     = ".dev"

	namespace    = "default"
	shards       = 4
	drainTimeout = 10 * time.Second
)

// options are the flags.
type options struct {
	listen, temporal, ui, data, readyFile string
}

func newRoot() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:           "agentruntime-dev",
		Short:         "Run the whole service on this machine, for development",
		Version:       cli.Version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return runAll(cmd.Context(), o) },
	}
	o.addListen(root)
	o.addTemporal(root)
	o.addUI(root)
	o.addCommon(root)
	root.AddCommand(postgresCommand(), sandboxCommand(),
		serviceCommand("api", "Serve the HTTP API", app.Roles{API: true}),
		serviceCommand("worker", "Run workflows and their activities", app.Roles{Worker: true}),
		seedCommand(), cli.EvaluateCommand())
	root.AddCommand(serverCommands()...)
	return root
}

func (o *options) addListen(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.listen, "listen", defaultListen, "host:port of the API; port 0 picks a free one")
}

func (o *options) addCommon(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.data, "data", defaultData, "directory of everything that outlives the process")
	cmd.Flags().StringVar(&o.readyFile, "ready-file", "", "file to write, as JSON, when all is ready")
}

// runAll runs everything in this process tree until ctx ends or a part fails.
func runAll(ctx context.Context, o options) error {
	s, err := newStack(o)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.startAll(ctx); err != nil {
		return interrupted(ctx, err)
	}
	if err := s.announce(os.Stdout); err != nil {
		return err
	}
	return s.wait(ctx)
}

func (s *stack) startAll(ctx context.Context) error {
	if err := s.startPostgres(ctx, 0); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.migrate(gctx) })
	g.Go(func() error { return s.startTemporal(gctx, s.visibilityURL) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := s.startUI(ctx, s.ready.TemporalAddress); err != nil {
		return err
	}
	shopURL, err := s.startSandbox(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	cfg, err := s.serviceConfig("eager")
	if err != nil {
		return err
	}
	if err := s.startService(ctx, cfg, app.Roles{API: true, Worker: true, Tracer: s.tracer}); err != nil {
		return err
	}
	return s.seed(ctx, shopURL)
}

// stack is the parts that run, and how to stop them.
type stack struct {
	options
	log     *slog.Logger
	ready   ready
	cleanup []func() error
	// failed gets the error of a part that ended by itself.
	failed chan error

	appURL        string // database of the service, for its login role
	visibilityURL string // database of Temporal's lists
	// For measurements, nil otherwise.
	tracer      pgx.QueryTracer
	countWrites func(operation string)

	ownerURL string // database of the service, for the owner of its schema
}

func newStack(o options) (*stack, error) {
	data, err := filepath.Abs(o.data)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	o.data = data
	cfg, err := logConfig()
	if err != nil {
		return nil, err
	}
	log, err := app.Log(cfg, os.Stderr)
	if err != nil {
		return nil, err
	}
	memory.Tune(log)
	if o.readyFile != "" {
		// A reader must not take an earlier run's file for ours.
		if err := os.Remove(o.readyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove the old ready file: %w", err)
		}
	}
	return &stack{options: o, log: log, failed: make(chan error, 8)}, nil
}

// logConfig is the configuration from the environment, made readable for people.
func logConfig() (config.Config, error) {
	// Without ENV it would be production, which refuses what is for development.
	if os.Getenv("ENV") == "" {
		if err := os.Setenv("ENV", "development"); err != nil {
			return config.Config{}, err
		}
	}
	cfg, err := config.Load()
	if err != nil {
		return cfg, err
	}
	if os.Getenv("LOG_FORMAT") == "" {
		cfg.LogFormat = "text"
	}
	if os.Getenv("SIGNUP") == "" {
		cfg.Signup = "open"
	}
	return cfg, nil
}

func (s *stack) onClose(stop func() error) { s.cleanup = append(s.cleanup, stop) }

// close stops the parts, last in first out.
func (s *stack) close() {
	for _, stop := range slices.Backward(s.cleanup) {
		if err := stop(); err != nil {
			s.log.Error("stopping", slog.Any("error", err))
		}
	}
	s.cleanup = nil
}

// wait returns when ctx ends or a part fails.
func (s *stack) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// interrupted makes a Ctrl-C during the start an orderly end.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
