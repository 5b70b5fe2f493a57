package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
)

// GrantEraser ends the grants for a customer, and empties what they say about the customer.
type GrantEraser struct{}

// EraseOf implements customer.Holder.
func (GrantEraser) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, before time.Time, most int) (erased int64, waits bool, err error) {
	q := dbsqlc.New()
	erased, err = q.EraseGrants(ctx, tx, dbsqlc.EraseGrantsParams{TenantID: tenant, Names: names, Before: before, Most: int64(most)})
	if err != nil {
		return 0, false, fmt.Errorf("desk: erase grants: %w", err)
	}
	if erased > 0 {
		err = q.CloseGate(ctx, tx, tenant.String())
	}
	return erased, false, err
}
