package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"agentruntime/internal/record/chain"
)

// auditCommand works on exported files. It reads no configuration and opens no
// connection, so that auditors can run it on their own machine.
func auditCommand() *cobra.Command {
	audit := &cobra.Command{Use: "audit", Short: "Work with exports of the audit trail"}
	var keyFile string
	verify := &cobra.Command{
		Use:   "verify FILE --key KEYS.json",
		Short: "Verify an NDJSON export without the service",
		Long: `Verifies an export of GET /v1/audit/export?format=ndjson: the hash chain over its
records, its checkpoints, and the signature under all of it. FILE may be - for the
standard input. KEYS.json is the answer of GET /v1/audit/keys, kept from a time when
it was trusted. It needs neither a database nor the network.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one export, or - for the standard input: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return verifyExport(cmd.InOrStdin(), cmd.OutOrStdout(), args[0], keyFile)
		},
	}
	verify.Flags().StringVar(&keyFile, "key", "", "file with the public keys")
	_ = verify.MarkFlagRequired("key") // the flag exists
	audit.AddCommand(verify)
	return audit
}

func verifyExport(in io.Reader, out io.Writer, file, keyFile string) error {
	text, err := os.ReadFile(keyFile) //nolint:gosec // the user of the command names the file
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	keys, err := chain.ParseKeys(text)
	if err != nil {
		return fmt.Errorf("%s: %w", keyFile, err)
	}
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the same
		if err != nil {
			return fmt.Errorf("read the export: %w", err)
		}
		defer f.Close()
		in = f
	}
	sum, err := chain.Verify(in, keys)
	var problem *chain.FileError
	switch {
	case errors.As(err, &problem):
		return fmt.Errorf("%s is NOT what was exported: %w", file, err)
	case err != nil:
		return fmt.Errorf("read the export: %w", err)
	}
	_, err = fmt.Fprintf(out, `valid
tenant       %s
records      %d to %d: %d shown, %d left out by the filters
filters      %s
checkpoints  %d
last hash    %s
exported at  %s
signed with  %s
`, sum.TenantID, sum.FirstSeq, sum.LastSeq, sum.Records, sum.Hidden, sum.Filters, sum.Checkpoints, sum.LastHash,
		sum.ExportedAt.UTC().Format(time.RFC3339), sum.KID)
	return err
}
