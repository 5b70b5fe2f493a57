package run

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/resultfile"
)

// EraseOf implements customer.Holder. It empties arguments, results and metadata of the runs that
// have ended, and what their approvals show of them, and deletes their events. It waits for the others: a call under way
// needs its arguments. What remains of a run says that there was a call, and its keyed fingerprint
// keeps a repeat from running again; such a repeat is RESULT_EXPIRED.
func (s *Service) EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, before time.Time, most int) (erased int64, waits bool, err error) {
	low := db.FirstID(before)
	rows, err := s.q.RunsToErase(ctx, tx, dbsqlc.RunsToEraseParams{TenantID: tenant, Names: names, Before: low, Most: int64(most)})
	if err != nil {
		return 0, false, fmt.Errorf("run: erase: %w", err)
	}
	if len(rows) == 0 {
		waits, err = s.q.RunsOfCustomerLeft(ctx, tx, dbsqlc.RunsOfCustomerLeftParams{TenantID: tenant, Names: names, Before: low})
		if err != nil {
			return 0, false, fmt.Errorf("run: erase: %w", err)
		}
		return 0, waits, nil
	}
	ids, executions := make([]uuid.UUID, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		ids[i], executions[i] = r.ID, r.ExecutionID
	}
	b := &db.Batch{}
	n := db.Queue(b, s.q.EraseRuns, dbsqlc.EraseRunsParams{TenantID: tenant, Ids: ids, ErasedAt: s.d.Now()})
	db.Queue(b, s.q.EraseApprovals, dbsqlc.EraseApprovalsParams{TenantID: tenant, ExecutionIds: executions})
	event.QueueErase(b, tenant, executions)
	resultfile.QueueErase(b, tenant, ids)
	db.QueueExec(b, s.q.EraseEdits, dbsqlc.EraseEditsParams{TenantID: tenant, ExecutionIds: executions})
	if err := b.SendIn(ctx, tx); err != nil {
		return 0, false, fmt.Errorf("run: erase: %w", err)
	}
	return n.Value, n.Value == 0, nil // none is left alone for good: all were claimed again
}
