//go:build !external

package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"agentruntime/internal/dev/bench"
	"agentruntime/internal/dev/devserver"
	"agentruntime/internal/dev/sandbox"
)

// benchCommand runs the whole service in this process and measures it.
func benchCommand() *cobra.Command {
	var cfg bench.Config
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure the service against the bare workflow", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Run(cmd.Context(), cfg, benchDeps(os.Stdout))
		},
	}
	cmd.AddCommand(benchClientCommand())
	cmd.Flags().DurationVar(&cfg.Round, "round", 3*time.Second, "length of one round")
	cmd.Flags().IntSliceVar(&cfg.Clients, "clients", []int{1, 16, 64}, "how many clients call at once")
	cmd.Flags().StringVar(&cfg.Profile, "cpuprofile", "", "file for a CPU profile of the action runs at the largest number of clients")
	cmd.Flags().IntVar(&cfg.Approvals, "approvals", 300, "held calls that are approved one after the other")
	cmd.Flags().IntVar(&cfg.Pending, "pending", 10_000, "held calls that wait while others run")
	cmd.Flags().IntVar(&cfg.Hanging, "hanging", 50, "webhooks that hang while others are told of events")
	cmd.Flags().IntVar(&cfg.Queued, "queued", 10_000, "Maps of another tenant that wait while Maps are triggered")
	cmd.Flags().IntVar(&cfg.Verbs, "verbs", 100_000, "verbs in the large catalog")
	return cmd
}

func benchDeps(out io.Writer) bench.Deps {
	return bench.Deps{
		Start: startMeasured, StartStock: startStock, StartProvider: startProvider, RunClient: runClient, Namespace: namespace, Out: out,
	}
}

// benchClientCommand is the process of the callers from outside.
func benchClientCommand() *cobra.Command {
	return &cobra.Command{
		Use: "client", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.Client(cmd.Context(), os.Stdin, os.Stdout) },
	}
}

// itself is a command that runs this program.
func itself(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// runClient runs the callers in a process of their own.
func runClient(ctx context.Context, in io.Reader, out io.Writer) error {
	cmd, err := itself(ctx, "bench", "client")
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout = in, out
	return cmd.Run()
}

// startProvider runs the sandbox in a process of its own.
func startProvider(ctx context.Context, dir string) (bench.Outside, error) {
	readyFile := filepath.Join(dir, "ready.json")
	cmd, err := itself(ctx, "sandbox", "--data", dir, "--ready-file", readyFile)
	if err != nil {
		return bench.Outside{}, err
	}
	cmd.Env = append(os.Environ(), "LOG_LEVEL=error")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bench.Outside{}, err
	}
	if err := cmd.Start(); err != nil {
		return bench.Outside{}, err
	}
	stop := func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() } // its data is thrown away
	for {
		var r ready
		text, err := os.ReadFile(readyFile)
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil {
			key, err := (&stack{options: options{data: dir}}).sandboxKey()
			return bench.Outside{Key: key, BaseURL: r.SandboxURL, Document: sandbox.Document(r.SandboxURL), Stop: stop}, err
		}
		select {
		case <-ctx.Done():
			stop()
			return bench.Outside{}, ctx.Err()
		case <-time.After(readyPoll):
		}
	}
}

// startMeasured starts everything that `make dev` runs, without logs.
func startMeasured(ctx context.Context, dir string, m bench.Meters) (bench.Service, error) {
	s, err := newStack(options{data: dir, listen: "127.0.0.1:0", temporal: "127.0.0.1:0", ui: "127.0.0.1:0"})
	if err != nil {
		return bench.Service{}, err
	}
	s.log = slog.New(slog.DiscardHandler)
	s.tracer = m.Trips
	s.countWrites = func(string) { m.CountWrite() }
	if err := s.startAll(ctx); err != nil {
		s.close()
		return bench.Service{}, err
	}
	t := s.ready.tenant
	return bench.Service{
		APIURL: s.ready.APIURL, TemporalAddress: s.ready.TemporalAddress, DatabaseURL: s.appURL,
		Email: t.Email, Password: t.Password, RuntimeKey: t.RuntimeKey, Provider: shopProvider, Stop: s.close,
	}, nil
}

// startStock starts a Temporal server as `temporal server start-dev` configures it.
func startStock(ctx context.Context, dir string) (addr string, stop func(), err error) {
	server, err := devserver.StartTemporal(ctx, devserver.TemporalConfig{
		FrontendAddr: "127.0.0.1:0", Dir: dir, Shards: 1, Namespace: namespace, Log: slog.New(slog.DiscardHandler), Stock: true,
	})
	if err != nil {
		return "", nil, err
	}
	return server.Addr, func() { _ = server.Stop() }, nil // its data is thrown away
}
