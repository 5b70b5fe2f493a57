package event

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// QueueErase adds the deletion of all events of the executions to a batch, with their deliveries to
// webhooks.
func QueueErase(b *db.Batch, tenant uuid.UUID, executions []string) {
	db.QueueExec(b, dbsqlc.New().EraseEventsOfExecutions, dbsqlc.EraseEventsOfExecutionsParams{TenantID: tenant, ExecutionIds: executions})
}

// Eraser erases the events about a customer that came before a time, with their deliveries to
// webhooks and what the receivers answered.
type Eraser struct{}

// EraseOf implements customer.Holder.
func (Eraser) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, before time.Time, most int) (erased int64, waits bool, err error) {
	erased, err = dbsqlc.New().EraseCustomerEvents(ctx, tx, dbsqlc.EraseCustomerEventsParams{TenantID: tenant, Names: names, Before: db.FirstID(before), Most: int64(most)})
	if err != nil {
		return 0, false, fmt.Errorf("event: erase: %w", err)
	}
	return erased, false, nil
}
