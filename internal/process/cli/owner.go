package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
	"agentruntime/internal/tenant/account"
)

// maxPassword is more than a password may have, in bytes.
const maxPassword = 4096

// ownerName is the name of the command: that of the role.
const ownerName = string(actor.RoleOwner)

// ownerCommand makes owners where nobody may sign up.
func ownerCommand() *cobra.Command {
	owner := &cobra.Command{Use: ownerName, Short: "Work with the owners of tenants"}
	var in account.OwnerInput
	create := &cobra.Command{
		Use:   "create --email EMAIL --tenant NAME",
		Short: "Make a tenant and its owner; the password comes from standard input",
		Long: `Makes a tenant and its owner, also where SIGNUP is closed. The password is read from
standard input, up to the first line break. The address counts as verified. Prints the ids
as JSON.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(Needs(ownerName)...)
			if err != nil {
				return err
			}
			if in.Password, err = readPassword(cmd.InOrStdin()); err != nil {
				return err
			}
			made, err := app.CreateOwner(cmd.Context(), cfg, in)
			if f := fault.As(err); f != nil && f.Cause == nil {
				return errors.New(f.Message)
			} else if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
				"user_id": made.UserID.String(), "tenant_id": made.TenantID.String(), "email": made.Email, "tenant": made.Tenant,
			})
		},
	}
	create.Flags().StringVar(&in.Email, "email", "", "address with which the owner logs in")
	create.Flags().StringVar(&in.Tenant, "tenant", "", "name of the tenant")
	for _, name := range []string{"email", "tenant"} {
		if err := create.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	owner.AddCommand(create)
	return owner
}

// readPassword returns the first line.
func readPassword(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPassword))
	if err != nil {
		return "", fmt.Errorf("read the password from standard input: %w", err)
	}
	password, _, _ := strings.Cut(string(text), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", errors.New("no password: write it to standard input, for example with `printf %s \"$PASSWORD\" |` before the command")
	}
	return password, nil
}
