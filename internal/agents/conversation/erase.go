package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// EraseEvery is the pause between two passes of EraseOld, eraseBatch how many sessions one pass
// deletes.
const (
	EraseEvery = time.Minute
	eraseBatch = 100
)

// EraseOld deletes the sessions of all tenants that had no message for Config.Keep, with all that was
// said in them. One with a message that has not ended stays until that has.
func (s *Service) EraseOld(ctx context.Context) error {
	before := s.d.Now().Add(-s.cfg.Keep)
	rows, err := s.q.OldConversations(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.OldConversationsParams{Before: before, Most: eraseBatch})
	if err != nil {
		return fmt.Errorf("conversation: old ones: %w", err)
	}
	old := map[uuid.UUID][]uuid.UUID{}
	for _, row := range rows {
		old[row.TenantID] = append(old[row.TenantID], row.ID)
	}
	for tenant, ids := range old {
		err := s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
			ids, err := s.q.LockOldConversations(ctx, tx, dbsqlc.LockOldConversationsParams{TenantID: tenant, Ids: ids, Before: before})
			if err != nil {
				return err
			}
			_, err = s.q.DeleteConversations(ctx, tx, dbsqlc.DeleteConversationsParams{TenantID: tenant, Ids: ids})
			return err
		})
		if err != nil {
			return fmt.Errorf("conversation: erase old ones: %w", err)
		}
	}
	return nil
}

// EraseOf implements customer.Holder: it deletes the sessions of a customer with all that was said in
// them. One with a message that has not ended waits. Sessions know their customers by ids, which no
// other customer gets, so their time does not count.
func (s *Service) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, _ time.Time, most int) (erased int64, waits bool, err error) {
	var customers []uuid.UUID
	for _, name := range names {
		if id, err := uuid.Parse(name); err == nil {
			customers = append(customers, id)
		}
	}
	ids, err := s.q.LockConversationsOfCustomer(ctx, tx, dbsqlc.LockConversationsOfCustomerParams{TenantID: tenant, Customers: customers, Most: int32(most)})
	if err != nil {
		return 0, false, fmt.Errorf("conversation: those of a customer: %w", err)
	}
	if len(ids) > 0 {
		if erased, err = s.q.DeleteConversations(ctx, tx, dbsqlc.DeleteConversationsParams{TenantID: tenant, Ids: ids}); err != nil {
			return 0, false, fmt.Errorf("conversation: erase those of a customer: %w", err)
		}
	}
	if erased == 0 {
		waits, err = s.q.HasConversationOfCustomer(ctx, tx, dbsqlc.HasConversationOfCustomerParams{TenantID: tenant, Customers: customers})
	}
	return erased, waits, err
}

// QueueMoved moves the sessions of a customer who is merged into another one, with their messages, in the
// transaction of the merge.
func (s *Service) QueueMoved(b *db.Batch, tenant, into, from uuid.UUID) {
	db.QueueExec(b, s.q.MoveConversations, dbsqlc.MoveConversationsParams{TenantID: tenant, Customer: &into, MergedID: &from})
}
