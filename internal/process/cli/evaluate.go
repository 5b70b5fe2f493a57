package cli

import (
	"os"

	"github.com/spf13/cobra"

	"agentruntime/internal/edge/jqchild"
)

// EvaluateCommand is what a process of the service starts as its children: they evaluate the
// expressions of Maps and the programs of results. People do not call it.
func EvaluateCommand() *cobra.Command {
	return &cobra.Command{
		Use: jqchild.Subcommand, Short: "Evaluate jq expressions for the process that started this one",
		Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return jqchild.Serve(os.Stdin, os.Stdout) },
	}
}
