//go:build !external

package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"agentruntime/internal/dev/bench"
	"agentruntime/internal/dev/sandbox"
)

// benchCommand runs the whole service in this process and measures it.
func benchCommand() *cobra.Command {
	var cfg bench.Config
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure the service against the bare workflow", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Run(cmd.Context(), cfg, startMeasured, os.Stdout)
		},
	}
	cmd.Flags().DurationVar(&cfg.Round, "round", 1500*time.Millisecond, "length of one round")
	cmd.Flags().IntVar(&cfg.Pairs, "pairs", 15, "rounds of each of two requests that are compared")
	cmd.Flags().StringVar(&cfg.Only, "only", "", "regular expression for the names of the scenarios to measure, such as 'Map of five'")
	cmd.Flags().StringVar(&cfg.Page, "page", "", "page into which the table is written, where all is measured")
	cmd.Flags().IntVar(&cfg.Pending, "pending", 10_000, "held calls that wait while others run")
	cmd.Flags().IntVar(&cfg.Queued, "queued", 10_000, "Maps of another tenant that wait while Maps are triggered")
	return cmd
}

// startMeasured starts everything that `make dev` runs, without logs.
func startMeasured(ctx context.Context, dir string, trips *bench.Trips, countWrite func()) (bench.Service, error) {
	s, err := newStack(options{data: dir, listen: "127.0.0.1:0", temporal: "127.0.0.1:0", ui: "127.0.0.1:0"})
	if err != nil {
		return bench.Service{}, err
	}
	s.log = slog.New(slog.DiscardHandler)
	s.tracer = trips
	s.countWrites = func(string) { countWrite() }
	if err := s.startAll(ctx); err != nil {
		s.close()
		return bench.Service{}, err
	}
	key, err := s.sandboxKey()
	if err != nil {
		s.close()
		return bench.Service{}, err
	}
	t := s.ready.tenant
	return bench.Service{
		APIURL: s.ready.APIURL, TemporalAddress: s.ready.TemporalAddress, DatabaseURL: s.appURL, Namespace: namespace,
		Email: t.Email, Password: t.Password, RuntimeKey: t.RuntimeKey,
		Provider: shopProvider, ProviderURL: s.ready.SandboxURL, ProviderKey: key, Document: sandbox.Document(s.ready.SandboxURL),
		Stop: s.close,
	}, nil
}
