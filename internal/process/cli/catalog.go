package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"agentruntime/api"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
	"agentruntime/internal/provider/catalog"
)

// catalogCommand works on the providers that the platform offers to every tenant.
func catalogCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "catalog", Short: "Work with the providers that the platform offers to every tenant",
		Long: `Stores, lists and removes the providers of the platform. Each is stored once, and every
tenant may enable it. The commands connect to MIGRATE_DATABASE_URL, as the role that owns
the tables: the service's own role only reads these rows.`,
	}
	c.AddCommand(importCommand(), listCommand(), removeCommand())
	return c
}

// onPlatform does something with the platform's catalog.
func onPlatform(ctx context.Context, do func(*app.Platform) error) error {
	cfg, err := config.Load(Needs("catalog")...)
	if err != nil {
		return err
	}
	p, err := app.OpenPlatform(ctx, cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	err = do(p)
	if fault.HasCode(err, fault.CodeURLNotAllowed) && !cfg.AllowLoopback {
		return fmt.Errorf("%w\nFor a server on this machine, in development, set EGRESS_ALLOW_LOOPBACK=true for this command, for the API and for the worker", readable(err))
	}
	return readable(err)
}

// readable returns the error with the details of a refusal, one to a line. They may have names of
// the document, so what steers a terminal is left out.
func readable(err error) error {
	f := fault.As(err)
	if f == nil {
		return err
	}
	lines := []string{line(f.Message)}
	for _, d := range f.Details {
		lines = append(lines, "  "+strings.TrimSpace(line(d.Path+" "+d.Message)))
	}
	return errors.New(strings.Join(lines, "\n"))
}

func importCommand() *cobra.Command {
	var in importFlags
	var preview, accept, asJSON bool
	c := &cobra.Command{
		Use:   "import FILE --slug SLUG",
		Short: "Store a provider for all tenants, or replace it",
		Long: `Reads a document as POST /v1/providers does: OpenAPI or Swagger, in JSON or YAML, or a zip
archive of several files. FILE may be - for the standard input. The settings of an import
are those of the endpoint. The platform keeps none of them: give them again each time.

An import that replaces a provider may change what governs calls: a risk, a base URL, an
argument that policies name. Such an import prints its report, stores nothing and fails,
unless --accept is given.

A server that is not public is refused. For one on this machine, in development, set
EGRESS_ALLOW_LOOPBACK=true for this command, for the API and for the worker.`,
		Args: exactly(1, "name one document, or - for the standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := in.read(cmd.InOrStdin(), args[0])
			if err != nil {
				return readable(err)
			}
			return onPlatform(cmd.Context(), func(p *app.Platform) error {
				var stored catalog.Provider
				var err error
				if preview {
					stored, err = p.Importer.Preview(cmd.Context(), input)
				} else {
					stored, err = p.Importer.Import(cmd.Context(), input, accept)
				}
				refused := fault.HasCode(err, fault.CodeConflict)
				if err != nil && !refused {
					return err
				}
				if err := printImport(cmd.OutOrStdout(), stored, preview || refused, asJSON); err != nil {
					return err
				}
				if refused {
					return errors.New(fault.As(err).Message + " Repeat the command with --accept.")
				}
				return nil
			})
		},
	}
	in.define(c.Flags())
	c.Flags().BoolVar(&preview, "preview", false, "say what the import would do, and store nothing")
	c.Flags().BoolVar(&accept, "accept", false, "accept changes of what governs calls")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as POST /v1/providers answers it")
	return c
}

func printImport(out io.Writer, p catalog.Provider, only, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(api.ReportImport(p))
	}
	return printReport(out, p, only)
}

// listed is how many providers one statement reads.
const listed = 500

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the providers of the platform", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onPlatform(cmd.Context(), func(p *app.Platform) error {
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "SLUG\tVERBS\tAUTH\tUPDATED\tBASE URL\tNAME")
				for after := ""; ; {
					page, err := p.Offered(cmd.Context(), after, listed)
					if err != nil {
						return err
					}
					for _, o := range page {
						fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", o.Slug, o.Imported, o.AuthType, o.UpdatedAt.Format(time.RFC3339), o.BaseURL, line(o.Name))
						after = o.Slug
					}
					if len(page) < listed {
						return w.Flush()
					}
				}
			})
		},
	}
}

func removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove SLUG", Short: "Remove a provider of the platform, for all tenants",
		Long: `Removes a provider and its verbs. Calls of its verbs are refused from then on. Credentials
of tenants stay, and so does their choice: a provider that is stored again under the slug
is enabled for those that had enabled it.`,
		Args: exactly(1, "name one slug"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onPlatform(cmd.Context(), func(p *app.Platform) error {
				err := p.Delete(cmd.Context(), args[0])
				if fault.HasCode(err, fault.CodeProviderNotFound) {
					return fmt.Errorf("the platform has no provider %q: agentruntime catalog list shows what it has", args[0])
				}
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "removed", args[0])
				}
				return err
			})
		},
	}
}

// exactly refuses another number of arguments, and says what is wanted.
func exactly(n int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s: %s", want, cmd.UseLine())
		}
		return nil
	}
}
