package facts

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/quota"
)

// InUse returns the facts of the customer that the reference names, but for those that others have
// superseded, the newest first; none where there is no such customer.
func (s *Service) InUse(ctx context.Context, tenant uuid.UUID, reference string) ([]Fact, error) {
	rows, err := s.q.FactsInUse(ctx, s.d.DB.Tenant(tenant), dbsqlc.FactsInUseParams{TenantID: tenant, Reference: reference, Most: s.most()})
	if err != nil {
		return nil, fmt.Errorf("facts: in use: %w", err)
	}
	return s.openAll(ctx, tenant, rows)
}

// RequireCustomer refuses with CUSTOMER_NOT_FOUND where the reference names no customer, or one that was
// erased.
func (s *Service) RequireCustomer(ctx context.Context, tenant uuid.UUID, reference string) error {
	_, err := s.customer(ctx, s.d.DB.Tenant(tenant), tenant, reference)
	return err
}

func (s *Service) most() int32 { return int32(s.d.Quotas.Most(quota.CustomerFacts)) }

// QueueMoved moves the facts of a customer who is merged into another one, in the transaction of the
// merge. Together they may be more than the quota; the oldest are not read then.
func (s *Service) QueueMoved(b *db.Batch, tenant, into, from uuid.UUID) {
	db.QueueExec(b, s.q.MoveFacts, dbsqlc.MoveFactsParams{TenantID: tenant, Customer: into, MergedID: from, Now: s.d.Now()})
}

// EraseOf implements customer.Holder.
func (s *Service) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, _ time.Time, most int) (erased int64, waits bool, err error) {
	var customers []uuid.UUID // facts know their customers by id
	for _, name := range names {
		if id, err := uuid.Parse(name); err == nil {
			customers = append(customers, id)
		}
	}
	erased, err = s.q.EraseFactsOf(ctx, tx, dbsqlc.EraseFactsOfParams{TenantID: tenant, Customers: customers, Most: int32(most)})
	if err != nil {
		return 0, false, fmt.Errorf("facts: erase: %w", err)
	}
	return erased, false, nil
}

// ForgetEvery is the pause between two passes of Forget, and forgetMost how many facts one deletes.
const (
	ForgetEvery = 10 * time.Minute
	forgetMost  = 1_000
)

// Forget deletes the facts of all tenants that others have superseded before the given time.
func (s *Service) Forget(ctx context.Context, before time.Time) error {
	rows, err := s.q.SupersededFacts(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.SupersededFactsParams{Before: before, Most: forgetMost})
	if err != nil {
		return fmt.Errorf("facts: superseded ones: %w", err)
	}
	type owner struct{ tenant, customer uuid.UUID }
	old := map[owner][]uuid.UUID{}
	for _, r := range rows {
		of := owner{r.TenantID, r.Customer}
		old[of] = append(old[of], r.ID)
	}
	for of, ids := range old {
		p := dbsqlc.ForgetFactsParams{TenantID: of.tenant, Customer: of.customer, Ids: ids, Before: before}
		if err := s.q.ForgetFacts(ctx, s.d.DB.Tenant(of.tenant), p); err != nil {
			return fmt.Errorf("facts: forget: %w", err)
		}
	}
	return nil
}
