package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// EraseEvery is the pause between two passes of EraseOld, eraseBatch how many executions one pass
// erases.
const (
	EraseEvery = time.Minute
	eraseBatch = 100
)

// EraseOld erases the texts, the steps and the values of executions that ended longer ago than
// Config.Keep. Their rows stay: no name runs twice.
func (s *Service) EraseOld(ctx context.Context) error {
	rows, err := s.q.OldMaps(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.OldMapsParams{Before: new(s.d.Now().Add(-s.cfg.Keep)), Most: eraseBatch})
	if err != nil {
		return fmt.Errorf("execution: old ones: %w", err)
	}
	old := map[uuid.UUID][]uuid.UUID{}
	for _, row := range rows {
		old[row.TenantID] = append(old[row.TenantID], row.ID)
	}
	for tenant, ids := range old {
		b := &db.Batch{}
		s.queueErase(b, tenant, ids)
		if err := s.d.DB.Send(ctx, tenant, b); err != nil {
			return fmt.Errorf("execution: erase old ones: %w", err)
		}
	}
	return nil
}

// queueErase adds the erasure of the texts, steps, values and signals of ended executions.
func (s *Service) queueErase(b *db.Batch, tenant uuid.UUID, ids []uuid.UUID) {
	db.QueueExec(b, s.q.EraseMaps, dbsqlc.EraseMapsParams{TenantID: tenant, Executions: ids, Now: new(s.d.Now())})
	db.QueueExec(b, s.q.DeleteMapSteps, dbsqlc.DeleteMapStepsParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.DeleteMapValues, dbsqlc.DeleteMapValuesParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.DeleteModelCalls, dbsqlc.DeleteModelCallsParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.DeleteMapChanges, dbsqlc.DeleteMapChangesParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.ForgetMapChangeSets, dbsqlc.ForgetMapChangeSetsParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.EraseApprovalsOfMaps, dbsqlc.EraseApprovalsOfMapsParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.EraseDecisionsOfMaps, dbsqlc.EraseDecisionsOfMapsParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.DeleteMapSignals, dbsqlc.DeleteMapSignalsParams{TenantID: tenant, Executions: ids})
	db.QueueExec(b, s.q.StopMapWaits, dbsqlc.StopMapWaitsParams{TenantID: tenant, Executions: ids})
}

// EraseOf implements customer.Holder: it erases what executions for a customer have of them. Those
// that have not ended wait.
func (s *Service) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, before time.Time, most int) (erased int64, waits bool, err error) {
	_, last := db.IDsOf(nil, &before)
	if last == nil {
		return 0, false, nil
	}
	ids, err := s.q.MapsOfCustomer(ctx, tx, dbsqlc.MapsOfCustomerParams{TenantID: tenant, Names: names, Before: *last, Most: int32(most)})
	if err != nil {
		return 0, false, fmt.Errorf("execution: those of a customer: %w", err)
	}
	if len(ids) == 0 {
		waits, err = s.q.HasOpenMapOfCustomer(ctx, tx, dbsqlc.HasOpenMapOfCustomerParams{TenantID: tenant, Names: names, Before: *last})
		return 0, waits, err
	}
	b := &db.Batch{}
	s.queueErase(b, tenant, ids)
	return int64(len(ids)), false, b.SendIn(ctx, tx)
}
