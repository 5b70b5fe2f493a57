// Package limits shows and sets how many requests a tenant may make, and forgets the counters of
// those that make none. The requests are counted where they are authenticated, in package auth.
package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/record/audit"
)

// Deps are what a Service works with; Now may be nil.
type Deps struct {
	DB  *db.Pool
	Now func() time.Time
}

// Service reads and sets the limits of tenants.
type Service struct {
	plan rate.Plan
	db   *db.Pool
	q    *dbsqlc.Queries
	now  func() time.Time
	told *lru.Cache[window, struct{}]
}

// toldMost is how many windows a process remembers of which it has told. One that it forgets
// costs a look at the row.
const toldMost = 4096

// New checks the collaborators.
func New(plan rate.Plan, d Deps) (*Service, error) {
	plan = plan.WithDefaults()
	switch {
	case d.DB == nil:
		return nil, errors.New("limits: a database is required")
	case !plan.Default.Within(plan.Ceiling):
		return nil, errors.New("limits: the default is above the ceiling")
	}
	told, err := lru.New[window, struct{}](toldMost)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return &Service{plan: plan, db: d.DB, q: dbsqlc.New(), now: db.Clock(d.Now), told: told}, nil
}

// Record is the limits of a tenant, what its keys have used of the present windows, and the worst
// state of the circuits to its providers.
type Record struct {
	Limits  rate.Limits
	Used    rate.Counts
	Circuit circuit.State
}

// Read returns the limits that count for the tenant, and what its keys have used.
func (s *Service) Read(ctx context.Context, tenant uuid.UUID) (Record, error) {
	row, err := s.q.GetRateLimits(ctx, s.db.Tenant(tenant), tenant)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("limits: read: %w", err)
	case len(row.Used) != 4:
		return Record{}, errors.New("limits: the result of requests_used has another form")
	}
	return Record{
		Limits:  s.plan.Of(row.RequestsPerMinute, row.RequestsPerHour, row.RequestsPerDay),
		Used:    rate.Counts{Minute: int64(row.Used[1]), Hour: int64(row.Used[2]), Day: int64(row.Used[3])},
		Circuit: circuit.State(row.CircuitState),
	}, nil
}

// Set replaces the limits of the caller's tenant, for the requests that begin after it. What was
// used of the present windows stays. It refuses with VALIDATION_ERROR, and with PLAN_REQUIRED
// what is above the operator's ceiling. expect is asked about the limits that are replaced.
func (s *Service) Set(ctx context.Context, who actor.Actor, to rate.Limits, expect fault.Expect[rate.Limits]) error {
	if err := s.check(to); err != nil {
		return err
	}
	return s.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockRateLimits(ctx, tx, who.TenantID)
		if err != nil {
			return fmt.Errorf("limits: lock: %w", err)
		}
		was := s.plan.Of(row.RequestsPerMinute, row.RequestsPerHour, row.RequestsPerDay)
		if err := expect.Check(was); err != nil {
			return err
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.SetRateLimits, dbsqlc.SetRateLimitsParams{
			ID: who.TenantID, RequestsPerMinute: &to.Minute, RequestsPerHour: &to.Hour, RequestsPerDay: &to.Day,
		})
		audit.Queue(b, audit.Change(who, audit.RateLimitsUpdated, audit.SubjectTenant, who.TenantID.String()).With(map[string]any{
			"requests_per_minute": to.Minute, "requests_per_hour": to.Hour, "requests_per_day": to.Day,
			"before": was.Array(),
		}))
		return b.SendIn(ctx, tx)
	})
}

// check refuses what is no limit, and then what is above the ceiling.
func (s *Service) check(to rate.Limits) error {
	limits := []struct {
		name    string
		given   int32
		ceiling int32
	}{
		{"requests_per_minute", to.Minute, s.plan.Ceiling.Minute},
		{"requests_per_hour", to.Hour, s.plan.Ceiling.Hour},
		{"requests_per_day", to.Day, s.plan.Ceiling.Day},
	}
	above := fault.New(fault.CodePlanRequired, "")
	for _, l := range limits {
		if l.given < 1 {
			return fault.Invalid("/"+l.name, "minimum", l.name+" is at least 1.")
		}
		if l.given > l.ceiling {
			above.Details = append(above.Details, fault.Detail{
				Path: "/" + l.name, Rule: "maximum", Message: fmt.Sprintf("%s is at most %d.", l.name, l.ceiling),
			})
		}
	}
	if len(above.Details) > 0 {
		return above
	}
	return nil
}

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many rows one
// statement deletes.
const (
	ForgetEvery = 10 * time.Minute
	forgetMost  = 1000
)

// Forget deletes the counters whose day was over two days ago, of all tenants: by then no process
// counts in that day, whatever its clock says. So a tenant that makes no requests has no rows.
func (s *Service) Forget(ctx context.Context) error {
	const day = 24 * 60 // minutes
	today := s.now().Unix() / 60 / day
	for {
		n, err := s.q.ForgetRequests(ctx, s.db.Presenting(db.SettingSweep, "on"), dbsqlc.ForgetRequestsParams{
			Before: int32((today - 1) * day), Most: forgetMost,
		})
		if err != nil {
			return fmt.Errorf("limits: forget: %w", err)
		}
		if n < forgetMost {
			return nil
		}
	}
}
