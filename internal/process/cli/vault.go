package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
)

// vaultCommand works on the keys in the database.
func vaultCommand() *cobra.Command {
	vault := &cobra.Command{Use: "vault", Short: "Work with the keys of the vault"}
	vault.AddCommand(&cobra.Command{
		Use:   "rewrap",
		Short: "Wrap all data keys under the first key of VAULT_KEYS",
		Long: `Wraps the data keys of all credentials and tenants under the first key-encryption
key of VAULT_KEYS. What is sealed under the data keys stays as it is. Run it after all
processes of the service know that key. It may be repeated, and the service keeps
running. When it has ended without an error, no row needs the other keys.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(Needs("vault")...)
			if err != nil {
				return err
			}
			done, err := app.Rewrap(cmd.Context(), cfg)
			fmt.Fprintf(cmd.OutOrStdout(), "wrapped again: %d credentials, %d keys of tenants\n", done.Credentials, done.TenantKeys)
			return err
		},
	})
	return vault
}
