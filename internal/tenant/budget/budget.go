// Package budget sets and shows how much a tenant and its keys may use in a month, and reserves
// tokens and money for the steps that call a model. Writes of governed runs are counted by package
// run, in the statement that moves a run to sending. The API and the periodic jobs call it. It
// refuses no run itself.
package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// Config has the times of the service; zero values take the defaults.
type Config struct {
	// Lease is how long a reservation is kept for a worker of which nothing is heard (15 min).
	// A model step must end within it.
	Lease time.Duration
}

// Deps are what a Service works with.
type Deps struct {
	DB     *db.Pool
	Quotas quota.Limits
}

// Service sets and shows budgets, and reserves.
type Service struct {
	cfg Config
	d   Deps
	q   *dbsqlc.Queries
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil {
		return nil, errors.New("budget: a database is required")
	}
	if cfg.Lease == 0 {
		cfg.Lease = 15 * time.Minute
	}
	return &Service{cfg: cfg, d: d, q: dbsqlc.New()}, nil
}

// Measure is what a budget bounds.
type Measure string

// The measures. Money is in millionths of the tenant's currency.
const (
	ModelTokens Measure = "model_tokens"
	MoneyMicros Measure = "money_micros"
	WriteCalls  Measure = "write_calls"
)

// Most is the highest limit. JSON readers keep whole numbers up to it exactly.
const Most = 1<<53 - 1

// State says how much of a budget is used.
type State int

// The states, from the best to the worst. Warning begins at 80 % of the limit.
const (
	OK State = iota
	Warning
	Exhausted
)

func (s State) String() string { return [...]string{"ok", "warning", "exhausted"}[s] }

// Limits are the budgets of a tenant or of a key; nil where there is none.
type Limits struct{ ModelTokens, MoneyMicros, WriteCalls *int64 }

// of returns the limit of a measure.
func (l Limits) of(m Measure) *int64 {
	return map[Measure]*int64{ModelTokens: l.ModelTokens, MoneyMicros: l.MoneyMicros, WriteCalls: l.WriteCalls}[m]
}

func measures() []Measure { return []Measure{ModelTokens, MoneyMicros, WriteCalls} }

// Budget is one budget with what was used of it in the present month.
type Budget struct {
	Limit int64
	// Used is what calls have used that ended. Reserved is what calls under way have taken.
	Used, Reserved int64
	// Since is when counting began: what was used before is not in Used.
	Since time.Time
	State State
}

// Subject is a tenant, or a key of it, with its budgets.
type Subject struct {
	// KeyID is nil for the tenant.
	KeyID   *uuid.UUID
	Budgets map[Measure]Budget
}

// Limits returns the limits of the subject.
func (s Subject) Limits() Limits {
	limit := func(m Measure) *int64 {
		b, found := s.Budgets[m]
		if !found {
			return nil
		}
		return &b.Limit
	}
	return Limits{ModelTokens: limit(ModelTokens), MoneyMicros: limit(MoneyMicros), WriteCalls: limit(WriteCalls)}
}

// Record is all budgets of a tenant in the present month.
type Record struct {
	// Month is that of UTC, as 202612. ResetsAt is its end.
	Month    int
	ResetsAt time.Time
	Tenant   Subject
	// Keys are the keys that have budgets of their own, in the order of their ids.
	Keys []Subject
}

// State returns the worst state of the tenant's own budgets.
func (r Record) State() (worst State) {
	for _, b := range r.Tenant.Budgets {
		worst = max(worst, b.State)
	}
	return worst
}

// Read returns the budgets of the tenant.
func (s *Service) Read(ctx context.Context, tenant uuid.UUID) (Record, error) {
	b := &db.Batch{}
	month := db.Queue(b, func(ctx context.Context, tx dbsqlc.DBTX, _ struct{}) (dbsqlc.BudgetMonthRow, error) {
		return s.q.BudgetMonth(ctx, tx)
	}, struct{}{})
	rows := db.Queue(b, s.q.ListBudgets, tenant)
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return Record{}, fmt.Errorf("budget: read: %w", err)
	}
	r := Record{Month: int(month.Value.Month), ResetsAt: month.Value.ResetsAt.UTC(), Tenant: Subject{Budgets: map[Measure]Budget{}}}
	underWay, err := s.underWay(ctx, tenant, rows.Value)
	if err != nil {
		return Record{}, err
	}
	for _, row := range rows.Value {
		r.add(row, underWay[row.ID])
	}
	return r, nil
}

// underWay returns how many of the writes that the budgets have counted have not ended.
func (s *Service) underWay(ctx context.Context, tenant uuid.UUID, rows []dbsqlc.ListBudgetsRow) (map[uuid.UUID]int64, error) {
	out := map[uuid.UUID]int64{}
	counted := false
	for _, row := range rows {
		counted = counted || Measure(row.Measure) == WriteCalls && row.Used > 0
	}
	if !counted {
		return out, nil
	}
	found, err := s.q.WritesUnderWay(ctx, s.d.DB.Reading(tenant, db.ListLimit), tenant)
	if err != nil {
		return nil, fmt.Errorf("budget: writes under way: %w", err)
	}
	for _, f := range found {
		out[f.BudgetID] = f.Writes
	}
	return out, nil
}

func (r *Record) add(row dbsqlc.ListBudgetsRow, underWay int64) {
	into := &r.Tenant
	if row.Subject != row.TenantID {
		if n := len(r.Keys); n == 0 || *r.Keys[n-1].KeyID != row.Subject {
			r.Keys = append(r.Keys, Subject{KeyID: &row.Subject, Budgets: map[Measure]Budget{}})
		}
		into = &r.Keys[len(r.Keys)-1]
	}
	underWay = min(underWay, row.Used) // some may have ended between the two reads
	into.Budgets[Measure(row.Measure)] = Budget{
		Limit: row.Most, Used: row.Used - underWay, Reserved: row.Reserved + underWay, Since: row.Since.UTC(), State: State(row.Level),
	}
}

// State returns the worst state of the tenant's own budgets, and of those of the key where one is
// given.
func (s *Service) State(ctx context.Context, tenant uuid.UUID, key *uuid.UUID) (State, error) {
	level, err := s.q.BudgetLevel(ctx, s.d.DB.Tenant(tenant), dbsqlc.BudgetLevelParams{TenantID: tenant, KeyID: key})
	if err != nil {
		return 0, fmt.Errorf("budget: state: %w", err)
	}
	return State(level), nil
}

// Set replaces the budgets of the caller's tenant, or of a key of it, for the calls that begin
// after it. What was used of the present month stays. It refuses with VALIDATION_ERROR,
// API_KEY_NOT_FOUND and QUOTA_EXCEEDED. expect is asked about the budgets before.
func (s *Service) Set(ctx context.Context, who actor.Actor, key *uuid.UUID, to Limits, expect fault.Expect[Record]) error {
	if err := to.check(); err != nil {
		return err
	}
	err := s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if _, err := s.q.LockTenantBudgets(ctx, tx, who.TenantID); err != nil {
			return err
		}
		if err := s.known(ctx, tx, who.TenantID, key, to); err != nil {
			return err
		}
		was := Record{Tenant: Subject{Budgets: map[Measure]Budget{}}}
		rows, err := s.q.ListBudgets(ctx, tx, who.TenantID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			was.add(row, 0)
		}
		if err := expect.Check(was); err != nil {
			return err
		}
		kind, subject := audit.SubjectTenant, who.TenantID
		if key != nil {
			kind, subject = audit.SubjectAPIKey, *key
		}
		b := &db.Batch{}
		for _, m := range measures() {
			db.QueueExec(b, s.q.SetBudget, dbsqlc.SetBudgetParams{
				TenantID: who.TenantID, Subject: subject, Measure: string(m), ID: uuid.Must(uuid.NewV7()), Most: to.of(m),
			})
		}
		audit.Queue(b, audit.Change(who, audit.BudgetsUpdated, kind, subject.String()).With(map[string]any{"after": to.named(), "before": was.of(key).Limits().named()}))
		if err := b.SendIn(ctx, tx); err != nil {
			return err
		}
		return s.d.Quotas.Require(ctx, tx, who.TenantID, quota.Budgets)
	})
	if err != nil {
		return fmt.Errorf("budget: set: %w", err)
	}
	return nil
}

// known refuses a key that the tenant does not have. The budgets of a revoked key can be removed.
func (s *Service) known(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, key *uuid.UUID, to Limits) error {
	if key == nil {
		return nil
	}
	k, err := s.q.GetAPIKey(ctx, tx, dbsqlc.GetAPIKeyParams{TenantID: tenant, ID: *key})
	if db.IsNoRows(err) || err == nil && k.RevokedAt != nil && to != (Limits{}) {
		return fault.New(fault.CodeAPIKeyNotFound, "")
	}
	return err
}

// of returns the subject of the key, or the tenant where key is nil.
func (r Record) of(key *uuid.UUID) Subject {
	if key == nil {
		return r.Tenant
	}
	for _, k := range r.Keys {
		if *k.KeyID == *key {
			return k
		}
	}
	return Subject{KeyID: key}
}

func (l Limits) check() error {
	for _, m := range measures() {
		if n := l.of(m); n != nil && (*n < 1 || *n > Most) {
			return fault.Invalid("/"+string(m), "range", fmt.Sprintf("%s is a whole number from 1 to %d, or null.", m, int64(Most)))
		}
	}
	return nil
}

// named returns the limits as audit records show them.
func (l Limits) named() map[Measure]*int64 {
	out := map[Measure]*int64{}
	for _, m := range measures() {
		out[m] = l.of(m)
	}
	return out
}
