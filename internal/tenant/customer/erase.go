package customer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// A Holder stores something about customers that is erased with them. A package with such a table
// implements it, and the composition root adds it to Deps.
type Holder interface {
	// EraseOf erases, in the transaction, at most most things of the customer that came to be
	// before the given time. names are texts that named the customer. It returns how many it
	// has erased. waits: none can be erased now, and some will be later.
	EraseOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, names []string, before time.Time, most int) (erased int64, waits bool, err error)
}

// Held is a kind of thing that is stored about customers.
type Held struct {
	Kind string // as the report writes it, for example "executions"
	Holder
}

// Workflows starts the workflow that erases. A start that was made before is no error.
type Workflows interface {
	StartErasure(ctx context.Context, ref flow.CustomerRef) error
}

// eraseMost is how many things of a kind one transaction erases, so that none is long.
const eraseMost = 100

// eraseAhead is how far the clocks of processes differ at most.
const eraseAhead = time.Hour

// Erasure is what was erased of a customer, and whether all is.
type Erasure struct {
	CustomerID  uuid.UUID
	RequestedBy string
	RequestedAt time.Time
	CompletedAt *time.Time
	// Erased has a row for each kind, also where nothing was erased.
	Erased []event.ErasedKind
}

// Completed reports whether nothing is left to erase.
func (e Erasure) Completed() bool { return e.CompletedAt != nil }

// Erase deletes the record of a customer with all its identifiers, and has a workflow erase what
// else is stored about them. It refuses with CUSTOMER_NOT_FOUND and with what expect returns. A
// workflow that cannot be started now is started later.
func (s *Service) Erase(ctx context.Context, who actor.Actor, reference string, expect fault.Expect[Customer]) (Erasure, error) {
	e := Erasure{RequestedBy: who.String(), RequestedAt: s.d.Now()}
	err := s.change(ctx, who, func(tx pgx.Tx) error {
		owners, err := s.claim(ctx, tx, who.TenantID, []string{kindReference + reference})
		if err != nil {
			return err
		}
		id, known := owners[kindReference+reference]
		if !known {
			return fault.New(fault.CodeCustomerNotFound, "")
		}
		c, err := s.lock(ctx, tx, who.TenantID, id)
		if err != nil {
			return err
		}
		if err := expect.Check(c); err != nil {
			return err
		}
		names, err := s.q.CustomerNames(ctx, tx, dbsqlc.CustomerNamesParams{TenantID: who.TenantID, Reference: id.String()})
		if err != nil {
			return err
		}
		e.CustomerID = id
		b := &db.Batch{}
		db.QueueExec(b, s.q.InsertErasure, dbsqlc.InsertErasureParams{
			TenantID: who.TenantID, CustomerID: id, Names: names, RequestedBy: e.RequestedBy, RequestedAt: e.RequestedAt,
		})
		db.QueueExec(b, s.q.DeleteCustomer, dbsqlc.DeleteCustomerParams{TenantID: who.TenantID, ID: id})
		audit.Queue(b, audit.Change(who, audit.CustomerErased, audit.SubjectCustomer, id.String()))
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return Erasure{}, fmt.Errorf("customer: erase: %w", err)
	}
	failpoint.Hit("erasure_asked", e.CustomerID)
	e.Erased = s.counted(nil)
	if err := s.d.Workflows.StartErasure(ctx, flow.CustomerRef{TenantID: who.TenantID, CustomerID: e.CustomerID}); err != nil {
		s.d.Log.WarnContext(ctx, "an erasure starts later", slog.String("error", err.Error()))
	}
	return e, nil
}

// Erasure returns what was erased of a customer, by the customer's id. The error is
// CUSTOMER_NOT_FOUND for an id that the tenant has not erased.
func (s *Service) Erasure(ctx context.Context, tenant, id uuid.UUID) (Erasure, error) {
	row, err := s.q.GetErasure(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetErasureParams{TenantID: tenant, CustomerID: id})
	switch {
	case db.IsNoRows(err):
		return Erasure{}, fault.New(fault.CodeCustomerNotFound, "The tenant has erased no customer with this id.")
	case err != nil:
		return Erasure{}, fmt.Errorf("customer: read an erasure: %w", err)
	}
	counts, err := countsOf(row)
	if err != nil {
		return Erasure{}, err
	}
	e := Erasure{CustomerID: id, RequestedBy: row.RequestedBy, RequestedAt: row.RequestedAt.UTC(), Erased: s.counted(counts)}
	if row.CompletedAt != nil {
		at := row.CompletedAt.UTC()
		e.CompletedAt = &at
	}
	return e, nil
}

func countsOf(row dbsqlc.CustomerErasure) (counts map[string]int64, err error) {
	counts = map[string]int64{}
	if err := json.Unmarshal(row.Erased, &counts); err != nil {
		return nil, fmt.Errorf("customer: read an erasure: %w", err)
	}
	return counts, nil
}

// counted returns the counts of all kinds, in the order of the holders.
func (s *Service) counted(counts map[string]int64) []event.ErasedKind {
	list := []event.ErasedKind{}
	for _, h := range s.d.Holders {
		list = append(list, event.ErasedKind{Kind: h.Kind, Count: counts[h.Kind]})
	}
	return list
}

// EraseNext erases the next batch of what is stored about a customer, in one transaction with
// the count of it. So a crash at any point loses and repeats nothing.
func (s *Service) EraseNext(ctx context.Context, ref flow.CustomerRef) (step flow.EraseStep, err error) {
	err = s.d.DB.InTenant(ctx, ref.TenantID, func(tx pgx.Tx) error {
		step = flow.EraseStep{}
		// A plan that was kept from small tables would read all that the tenant has.
		if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
			return err
		}
		row, err := s.q.LockErasure(ctx, tx, dbsqlc.LockErasureParams{TenantID: ref.TenantID, CustomerID: ref.CustomerID})
		if db.IsNoRows(err) || err == nil && row.CompletedAt != nil {
			step.Done = true
			return nil
		}
		if err != nil {
			return err
		}
		step, err = s.eraseNext(ctx, tx, row)
		return err
	})
	failpoint.Hit("after_erase", ref.CustomerID)
	if err != nil {
		return flow.EraseStep{}, fmt.Errorf("customer: erase the next: %w", err)
	}
	return step, nil
}

func (s *Service) eraseNext(ctx context.Context, tx pgx.Tx, row dbsqlc.CustomerErasure) (step flow.EraseStep, err error) {
	counts, err := countsOf(row)
	if err != nil {
		return step, err
	}
	// What came to be in the millisecond of the request counts too: ids have no finer time.
	before := row.RequestedAt.Add(time.Millisecond)
	// A message that was under way then has made calls since. They name the customer by its id, which no
	// other customer gets.
	ever, id := s.d.Now().Add(eraseAhead), []string{row.CustomerID.String()}
	for _, h := range s.d.Holders {
		n, waits, err := h.EraseOf(ctx, tx, row.TenantID, row.Names, before, eraseMost)
		if err == nil && n == 0 {
			var later bool
			n, later, err = h.EraseOf(ctx, tx, row.TenantID, id, ever, eraseMost)
			waits = waits || later
		}
		if err != nil {
			return step, err
		}
		step.Waits = step.Waits || waits
		if n > 0 {
			counts[h.Kind] += n
			raw, err := json.Marshal(counts)
			if err != nil {
				return step, fmt.Errorf("customer: count what was erased: %w", err)
			}
			failpoint.Hit("in_erase_"+h.Kind, row.CustomerID)
			return flow.EraseStep{}, s.q.CountErased(ctx, tx, dbsqlc.CountErasedParams{TenantID: row.TenantID, CustomerID: row.CustomerID, Erased: raw})
		}
	}
	if step.Waits {
		return step, nil
	}
	b := &db.Batch{}
	db.QueueExec(b, s.q.CompleteErasure, dbsqlc.CompleteErasureParams{TenantID: row.TenantID, CustomerID: row.CustomerID, CompletedAt: s.d.Now()})
	rec := audit.Change(actor.SystemOf(row.TenantID), audit.CustomerErasureCompleted, audit.SubjectCustomer, row.CustomerID.String())
	audit.Queue(b, rec.With(map[string]any{"erased": counts}))
	event.Queue(b, event.Event{
		TenantID: row.TenantID, About: event.About{CustomerID: row.CustomerID.String()}, Body: event.ErasedCustomer{Erased: s.counted(counts)},
	})
	failpoint.Hit("in_erase_end", row.CustomerID)
	return flow.EraseStep{Done: true}, b.SendIn(ctx, tx)
}

// ErasuresEvery is the pause between two calls of StartErasures, and startMost how many it starts.
const (
	ErasuresEvery = time.Minute
	startMost     = 100
)

// sweptTo is where the pass before stopped; the zero value where it came to the end.
type sweptTo struct {
	at time.Time
	id uuid.UUID
}

// StartErasures starts the workflows of erasures that are not completed, of all tenants. Nearly
// all run already; one whose process died before the start does not. The next pass goes on where it
// stopped, so that erasures which wait for long keep no other one from its start. One process makes
// one pass at a time.
func (s *Service) StartErasures(ctx context.Context) error {
	rows, err := s.q.OpenErasures(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.OpenErasuresParams{
		AfterAt: s.swept.at, AfterID: s.swept.id, Most: startMost,
	})
	if err != nil {
		return fmt.Errorf("customer: look for erasures: %w", err)
	}
	s.swept = sweptTo{}
	if len(rows) == startMost {
		last := rows[startMost-1]
		s.swept = sweptTo{last.RequestedAt, last.CustomerID}
	}
	for _, r := range rows {
		if err := s.d.Workflows.StartErasure(ctx, flow.CustomerRef{TenantID: r.TenantID, CustomerID: r.CustomerID}); err != nil {
			s.d.Log.WarnContext(ctx, "erasure not started", "tenant_id", r.TenantID, "customer_id", r.CustomerID, "error", err)
		}
	}
	return nil
}
