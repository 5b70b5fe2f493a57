// Package cli has the subcommands of the product binary. The development binary
// runs the same ones as separate processes.
package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentruntime/db"
	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
	"agentruntime/internal/process/memory"
)

// New returns the root command with all subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "agentruntime",
		Short:         "Governed actions for AI agents",
		Version:       Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(Commands()...)
	return root
}

// Commands returns the subcommands.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		serviceCommand("api", "Serve the HTTP API", app.Roles{API: true}),
		serviceCommand("worker", "Run workflows and their activities", app.Roles{Worker: true}),
		serviceCommand("all", "Serve the API and run workflows in one process", app.Roles{API: true, Worker: true}),
		migrateCommand(),
		auditCommand(),
		catalogCommand(),
		ownerCommand(),
		vaultCommand(),
		codecCommand(),
		healthCommand(),
		EvaluateCommand(),
	}
}

// Needs returns the parts of the configuration that a subcommand cannot run without.
// The tests of the deployment ask it too.
func Needs(command string) []config.Need {
	worker := []config.Need{config.NeedDatabase, config.NeedTemporal, config.NeedVault, config.NeedAudit}
	switch command {
	case "worker":
		return worker
	case "api", "all":
		return append(worker, config.NeedAuth, config.NeedMail)
	case "migrate", "catalog":
		return []config.Need{config.NeedMigrate}
	case "vault":
		return []config.Need{config.NeedDatabase, config.NeedVault}
	case ownerName:
		return []config.Need{config.NeedDatabase, config.NeedAuth}
	case "codec":
		return []config.Need{config.NeedTemporal, config.NeedCodec}
	default:
		return nil
	}
}

func serviceCommand(name, short string, roles app.Roles) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(Needs(name)...)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, roles)
		},
	}
}

func serve(ctx context.Context, cfg config.Config, roles app.Roles) error {
	log, err := app.Log(cfg, os.Stderr)
	if err != nil {
		return err
	}
	memory.Tune(log)
	var l net.Listener
	if roles.API {
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
			return fmt.Errorf("listen on LISTEN=%s: %w", cfg.Listen, err)
		}
		defer l.Close()
	}
	a, err := app.New(ctx, cfg, roles, log)
	if err != nil {
		return err
	}
	defer a.Close()
	if l != nil {
		log.InfoContext(ctx, "api listens", "address", l.Addr().String())
	}
	return a.Run(ctx, l)
}

func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database to the newest schema, and register search attributes in Temporal", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(Needs(cmd.Name())...)
			if err != nil {
				return err
			}
			before, err := db.SchemaVersion(cmd.Context(), cfg.MigrateURL)
			if err != nil {
				return err
			}
			if err := db.Migrate(cmd.Context(), cfg.MigrateURL); err != nil {
				return err
			}
			after, err := db.SchemaVersion(cmd.Context(), cfg.MigrateURL)
			if err != nil {
				return err
			}
			if before == after {
				fmt.Fprintf(cmd.OutOrStdout(), "The database is at version %d already. Its functions are those of this release.\n", after)
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "The database is migrated from version %d to %d.\n", before, after)
			}
			registerAttributes(cmd.Context(), cmd.OutOrStdout(), cfg)
			return nil
		},
	}
}

// registerLimit bounds the registering of search attributes, the wait for Temporal included.
const registerLimit = 20 * time.Second

// registerAttributes registers the search attributes and says what came of it. The service
// works without them, so a Temporal that refuses them does not fail a migration.
func registerAttributes(ctx context.Context, out io.Writer, cfg config.Config) {
	ctx, cancel := context.WithTimeout(ctx, registerLimit)
	defer cancel()
	added, err := app.RegisterAttributes(ctx, cfg)
	switch {
	case err != nil:
		fmt.Fprintf(out, "Search attributes are not registered in the namespace %s: %v\n"+
			"Calls are served without them. Operators cannot find their workflows by tenant, verb, risk or state. "+
			"Run migrate again with TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and the right to change the namespace.\n", cfg.TemporalNamespace, err)
	case len(added) > 0:
		fmt.Fprintf(out, "Registered search attributes in the namespace %s: %s.\n", cfg.TemporalNamespace, strings.Join(added, ", "))
	default:
		fmt.Fprintf(out, "The namespace %s has all search attributes already.\n", cfg.TemporalNamespace)
	}
}

// healthTimeout bounds the probe of a container's health check.
const healthTimeout = 3 * time.Second

// healthCommand asks a running API for its readiness: the image has no shell.
func healthCommand() *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Ask the API on this machine whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			_, port, found := strings.Cut(cfg.Listen, ":")
			if !found {
				return fmt.Errorf("LISTEN=%q has no port", cfg.Listen)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/readyz", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := (&http.Client{}).Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("not ready: HTTP %d", resp.StatusCode)
			}
			return nil
		},
	}
}
