package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/event"
)

// The pauses between the periodic jobs.
const (
	TellEvery   = 2 * time.Second
	LapseEvery  = 10 * time.Second
	ForgetEvery = 10 * time.Minute
)

// jobPage is how many rows one statement of a job reads or deletes.
const jobPage = 500

// Tell tells each tenant, by an event, of the budgets that have reached 80 % of their limit or are
// used up: once for each month and budget, over all processes. It goes by what is committed, so
// however many calls pass the mark at once, and whichever process crashes then, the event comes.
func (s *Service) Tell(ctx context.Context) error {
	var after dbsqlc.BudgetsToTellRow
	for {
		rows, err := s.q.BudgetsToTell(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.BudgetsToTellParams{
			AfterTenant: after.TenantID, AfterBudget: after.BudgetID, AfterMonth: after.Month, Most: jobPage,
		})
		if err != nil {
			return fmt.Errorf("budget: tell: %w", err)
		}
		for _, row := range rows {
			after = row
			if row.Level <= row.Told {
				continue
			}
			if err := s.tell(ctx, row.TenantID, row.BudgetID, row.Month); err != nil {
				return fmt.Errorf("budget: tell: %w", err)
			}
		}
		if len(rows) < jobPage {
			return nil
		}
	}
}

// tell emits the events of the levels that the budget has reached since the last one.
func (s *Service) tell(ctx context.Context, tenant, id uuid.UUID, month int32) error {
	return s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		told, err := s.q.TellBudget(ctx, tx, dbsqlc.TellBudgetParams{TenantID: tenant, BudgetID: id, Month: month})
		if err != nil || len(told) == 0 {
			return err
		}
		rows, err := s.q.GetBudget(ctx, tx, dbsqlc.GetBudgetParams{TenantID: tenant, ID: id})
		if err != nil || len(rows) == 0 {
			return err
		}
		about := event.Budget{
			Measure: rows[0].Measure, Month: monthText(month), Limit: told[3], Used: told[2], ResetsAt: resetsAt(month),
		}
		if key := rows[0].Subject; key != tenant {
			about.APIKeyID = key.String()
		}
		b := &db.Batch{}
		for level := State(told[0]) + 1; level <= State(told[1]); level++ {
			var body event.Body = event.BudgetWarned{Budget: about}
			if level == Exhausted {
				body = event.BudgetUsedUp{Budget: about}
			}
			event.Queue(b, event.Event{TenantID: tenant, Body: body})
		}
		return b.SendIn(ctx, tx)
	})
}

// monthText returns a month as 2026-12.
func monthText(month int32) string { return fmt.Sprintf("%04d-%02d", month/100, month%100) }

// resetsAt returns the end of a month.
func resetsAt(month int32) time.Time {
	return time.Date(int(month/100), time.Month(month%100)+1, 1, 0, 0, 0, 0, time.UTC)
}

// Lapse gives back the reservations whose lease is over: their workers have crashed.
func (s *Service) Lapse(ctx context.Context) error {
	for {
		rows, err := s.q.LapsedReservations(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), jobPage)
		if err != nil {
			return fmt.Errorf("budget: lapse: %w", err)
		}
		for _, row := range rows {
			_, err := s.q.SettleBudgets(ctx, s.d.DB.Tenant(row.TenantID), dbsqlc.SettleBudgetsParams{TenantID: row.TenantID, ID: row.ID, EndedAs: "lapsed"})
			if err != nil {
				return fmt.Errorf("budget: lapse: %w", err)
			}
		}
		if len(rows) < jobPage {
			return nil
		}
	}
}

// How long counters are kept after their month, in months, and reservations after their lease. A
// late settlement is counted in the month of its reservation.
const (
	keptMonths       = 2
	keptReservations = 24 * time.Hour
)

// Forget deletes the counters of months that are over and reservations that have ended, of all
// tenants.
func (s *Service) Forget(ctx context.Context) error {
	sweep := s.d.DB.Presenting(db.SettingSweep, "on")
	now, err := s.q.BudgetMonth(ctx, sweep)
	if err != nil {
		return fmt.Errorf("budget: forget: %w", err)
	}
	first := resetsAt(now.Month).AddDate(0, -1-keptMonths, 0)
	for _, forget := range []func() (int64, error){
		func() (int64, error) {
			return s.q.ForgetBudgetCounters(ctx, sweep, dbsqlc.ForgetBudgetCountersParams{Before: int32(first.Year()*100 + int(first.Month())), Most: jobPage})
		},
		func() (int64, error) {
			return s.q.ForgetReservations(ctx, sweep, dbsqlc.ForgetReservationsParams{Before: now.Now.Add(-keptReservations), Most: jobPage})
		},
	} {
		for n := int64(jobPage); n == jobPage; {
			if n, err = forget(); err != nil {
				return fmt.Errorf("budget: forget: %w", err)
			}
		}
	}
	return nil
}
