package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"agentruntime/internal/process/app"
)

// part makes a subcommand that starts one part, writes the ready file and waits.
func part(use, short string, o *options, start func(ctx context.Context, s *stack) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newStack(*o)
			if err != nil {
				return err
			}
			defer s.close()
			if err := start(cmd.Context(), s); err != nil {
				return interrupted(cmd.Context(), err)
			}
			if err := s.writeReady(); err != nil {
				return err
			}
			s.log.InfoContext(cmd.Context(), "ready", slog.String("part", use))
			return s.wait(cmd.Context())
		},
	}
	o.addCommon(cmd)
	return cmd
}

func postgresCommand() *cobra.Command {
	var o options
	var number int
	cmd := part("postgres", "Run the private Postgres, with its databases migrated", &o, func(ctx context.Context, s *stack) error {
		if err := s.startPostgres(ctx, number); err != nil {
			return err
		}
		s.ready.AppDatabaseURL, s.ready.VisibilityURL = s.appURL, s.visibilityURL
		return s.migrate(ctx)
	})
	cmd.Flags().IntVar(&number, "port", 0, "port on 127.0.0.1; 0 picks a free one")
	return cmd
}

func sandboxCommand() *cobra.Command {
	var o options
	cmd := part("sandbox", "Run the sandbox provider", &o, func(ctx context.Context, s *stack) error {
		_, err := s.startSandbox(ctx, s.listen)
		return err
	})
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "host:port of the sandbox; port 0 picks a free one")
	return cmd
}

// serviceCommand runs API or worker alone, against a Postgres and a Temporal that
// run elsewhere, by the split lane.
func serviceCommand(use, short string, roles app.Roles) *cobra.Command {
	var o options
	var databaseURL string
	cmd := part(use, short, &o, func(ctx context.Context, s *stack) error {
		s.appURL, s.ready.TemporalAddress = databaseURL, s.temporal
		cfg, err := s.serviceConfig("split")
		if err != nil {
			return err
		}
		return s.startService(ctx, cfg, roles)
	})
	if roles.API {
		o.addListen(cmd)
	}
	o.addTemporal(cmd)
	cmd.Flags().StringVar(&databaseURL, "database-url", os.Getenv("DATABASE_URL"), "the service's database, as `postgres` wrote it (app_database_url)")
	return cmd
}

// seedCommand makes the development tenant through an API that runs elsewhere.
func seedCommand() *cobra.Command {
	var o options
	var apiURL, shopURL string
	cmd := &cobra.Command{
		Use: "seed", Short: "Make the development tenant, its keys and the sandbox provider", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newStack(o)
			if err != nil {
				return err
			}
			defer s.close()
			s.ready.APIURL, s.ready.SandboxURL = apiURL, shopURL
			if err := s.seed(cmd.Context(), shopURL); err != nil {
				return err
			}
			return s.writeReady()
		},
	}
	o.addCommon(cmd)
	cmd.Flags().StringVar(&apiURL, "api-url", "http://"+defaultListen, "address of the API")
	cmd.Flags().StringVar(&shopURL, "sandbox-url", "", "address of the sandbox; empty leaves the provider as it is")
	return cmd
}
