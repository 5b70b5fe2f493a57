package vault

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/audit"
)

// EraseOf implements customer.Holder. It deletes the customer's own credentials.
func (v *Vault) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, before time.Time, most int) (erased int64, waits bool, err error) {
	ids, err := v.q.CredentialsOfCustomer(ctx, tx, dbsqlc.CredentialsOfCustomerParams{TenantID: tenant, Names: names, Before: before, Most: int32(most)})
	if err != nil {
		return 0, false, fmt.Errorf("vault: erase: %w", err)
	}
	for _, id := range ids {
		if _, err := v.q.DeleteCredential(ctx, tx, dbsqlc.DeleteCredentialParams{TenantID: tenant, ID: id}); err != nil {
			return 0, false, fmt.Errorf("vault: erase a credential: %w", err)
		}
		if err := audit.Append(ctx, tx, changed(actor.SystemOf(tenant), audit.CredentialDeleted, Credential{ID: id})); err != nil {
			return 0, false, err
		}
	}
	return int64(len(ids)), false, nil
}
