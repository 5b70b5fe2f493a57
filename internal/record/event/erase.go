package event

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
)

// eraseMost is how many events one statement of Erase deletes.
const eraseMost = 1000

// Erase deletes events of the tenant about a customer, by every name that calls have for the
// customer: our id and the caller's own. more says that a second call finds more. It belongs
// into a transaction of its own, so that no transaction is long.
func Erase(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, names []string) (erased int64, more bool, err error) {
	erased, err = dbsqlc.New().EraseEvents(ctx, tx, dbsqlc.EraseEventsParams{TenantID: tenant, CustomerIds: names, Most: eraseMost})
	if err != nil {
		return 0, false, fmt.Errorf("event: erase: %w", err)
	}
	return erased, erased == eraseMost, nil
}
