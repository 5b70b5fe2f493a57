package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/resultfile"
)

// Results are kept for Config.ResultsKept after the end of their run. Then the arguments and the
// result are erased. The row remains, with the run's names: a repeat is refused with
// RESULT_EXPIRED, and never runs again.

// EraseEvery is the pause between two calls of EraseOld.
const EraseEvery = 10 * time.Minute

const (
	// eraseAgain is when a tenant is looked at again, and leftAgain when a run is that was not to
	// be erased yet.
	eraseAgain = 6 * time.Hour
	leftAgain  = 24 * time.Hour
	// eraseSlack is how much longer a run is left alone after its claim than after its end. So
	// nearly all have ended when they are looked at.
	eraseSlack = time.Hour
	// eraseOldMost is how many runs one transaction looks at: one may have 7 MB of texts.
	eraseOldMost = 50
	// tenantsAtOnce is how many tenants a page has.
	tenantsAtOnce = 1000
)

// EraseOld erases the results of all tenants that are no longer kept, in small batches. A process
// leaves the tenants alone that another one is at.
func (s *Service) EraseOld(ctx context.Context) error {
	var after uuid.UUID
	for {
		page, err := s.q.TenantsToLook(ctx, s.d.DB.Presenting(db.SettingSeal, "on"), dbsqlc.TenantsToLookParams{Now: s.d.Now(), After: after, Most: tenantsAtOnce})
		if err != nil {
			return fmt.Errorf("run: look for tenants with old results: %w", err)
		}
		for _, t := range page {
			for more := t.Due; more; {
				if more, err = s.eraseSome(ctx, t.ID); err != nil {
					return err
				}
			}
			after = t.ID
		}
		if len(page) < tenantsAtOnce {
			return nil
		}
	}
}

// eraseSome erases the next batch of a tenant's old results, in one transaction with the place that
// it has reached. So a crash at any point loses nothing and repeats nothing.
func (s *Service) eraseSome(ctx context.Context, tenant uuid.UUID) (more bool, err error) {
	err = s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		now := s.d.Now()
		more = false
		// A plan that was kept from small tables would read all that the tenant has.
		if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
			return err
		}
		if err := s.q.BeginErasing(ctx, tx, dbsqlc.BeginErasingParams{TenantID: tenant, Now: now}); err != nil {
			return err
		}
		to, err := s.q.LockErasing(ctx, tx, dbsqlc.LockErasingParams{TenantID: tenant, Now: now})
		if db.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		old, err := s.q.OldRuns(ctx, tx, dbsqlc.OldRunsParams{
			TenantID: tenant, After: to, Before: db.FirstID(now.Add(-s.cfg.ResultsKept - eraseSlack)), Most: eraseOldMost,
		})
		if err != nil {
			return err
		}
		left, err := s.q.LeftRuns(ctx, tx, dbsqlc.LeftRunsParams{TenantID: tenant, Now: now, Most: eraseOldMost})
		if err != nil {
			return err
		}
		more = len(old) == eraseOldMost || len(left) == eraseOldMost
		p := dbsqlc.ErasedToParams{TenantID: tenant, ErasedTo: to, LookAt: now}
		if len(old) > 0 {
			p.ErasedTo = old[len(old)-1].ID
		}
		if !more {
			p.LookAt = now.Add(eraseAgain)
		}
		var ids, gone []uuid.UUID
		for _, r := range old {
			ids, gone = appendRun(ids, gone, r.ID, r.Erased)
		}
		for _, r := range left {
			ids, gone = appendRun(ids, gone, r.ID, r.Erased)
		}
		return s.eraseThese(ctx, tx, p, now, ids, gone)
	})
	if err != nil {
		return false, fmt.Errorf("run: erase old results: %w", err)
	}
	return more, nil
}

// appendRun adds a run to those that are to be erased, or to those that are.
func appendRun(ids, gone []uuid.UUID, id uuid.UUID, erased bool) (toErase, erasedBefore []uuid.UUID) {
	if erased {
		return ids, append(gone, id)
	}
	return append(ids, id), gone
}

// eraseThese erases those of the runs that have ended long enough ago, and leaves the others for
// later. gone are those that were erased before.
func (s *Service) eraseThese(ctx context.Context, tx pgx.Tx, p dbsqlc.ErasedToParams, now time.Time, ids, gone []uuid.UUID) error {
	erased, err := s.q.EraseOldRuns(ctx, tx, dbsqlc.EraseOldRunsParams{
		TenantID: p.TenantID, Now: now, EndedBefore: now.Add(-s.cfg.ResultsKept), Ids: ids,
	})
	if err != nil {
		return err
	}
	var executions []string
	for _, r := range erased {
		gone, executions = append(gone, r.ID), append(executions, r.ExecutionID)
	}
	later := slices.DeleteFunc(ids, func(id uuid.UUID) bool { return slices.Contains(gone, id) })
	b := &db.Batch{}
	db.Queue(b, s.q.EraseApprovals, dbsqlc.EraseApprovalsParams{TenantID: p.TenantID, ExecutionIds: executions})
	db.QueueExec(b, s.q.EraseEdits, dbsqlc.EraseEditsParams{TenantID: p.TenantID, ExecutionIds: executions})
	resultfile.QueueErase(b, p.TenantID, gone)
	db.QueueExec(b, s.q.RunsNotLeft, dbsqlc.RunsNotLeftParams{TenantID: p.TenantID, Ids: gone})
	db.QueueExec(b, s.q.LeaveRuns, dbsqlc.LeaveRunsParams{TenantID: p.TenantID, Ids: later, LookAt: now.Add(leftAgain)})
	db.QueueExec(b, s.q.ErasedTo, p)
	return b.SendIn(ctx, tx)
}

// resultExpired returns the refusal of a repeat of a run whose result is no longer kept.
func (r Run) resultExpired() error {
	f := fault.Newf(fault.CodeResultExpired,
		"The result of this execution was erased on %s. Its status is %s. Nothing ran, and nothing will under this id: use another id for a new call.",
		r.ErasedAt.UTC().Format(time.DateOnly), r.State.Status())
	f.ExecutionID, f.Status = r.ExecutionID, r.State.Status()
	return f
}
