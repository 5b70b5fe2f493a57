package facts

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// Filter narrows a list.
type Filter struct {
	// Superseded: nil for all, otherwise those that are, or are not.
	Superseded *bool
	Before     *uuid.UUID
	// Until is before when they were written; nil for any time.
	Until *time.Time
	Limit int
}

// List returns a page of the facts of the customer that the reference names, the newest first. It
// refuses with CUSTOMER_NOT_FOUND.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, reference string, f Filter) (page []Fact, more bool, err error) {
	reading := s.d.DB.Reading(tenant, db.ListLimit)
	customer, err := s.customer(ctx, reading, tenant, reference)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.q.ListFacts(ctx, reading, dbsqlc.ListFactsParams{
		TenantID: tenant, Customer: customer, Superseded: f.Superseded, Before: f.Before, Until: f.Until, Most: int32(f.Limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("facts: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page, err = s.openAll(ctx, tenant, rows)
	return page, more, err
}

func (s *Service) customer(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, reference string) (uuid.UUID, error) {
	id, err := s.q.CustomerOfFacts(ctx, tx, dbsqlc.CustomerOfFactsParams{TenantID: tenant, Reference: reference})
	switch {
	case db.IsNoRows(err):
		return id, fault.New(fault.CodeCustomerNotFound, "")
	case err != nil:
		return id, fmt.Errorf("facts: the customer: %w", err)
	}
	return id, nil
}

// Search returns the facts in use that have words of the query, the best first. It refuses with
// CUSTOMER_NOT_FOUND.
func (s *Service) Search(ctx context.Context, tenant uuid.UUID, reference, query string, most int) ([]Fact, error) {
	if err := s.RequireCustomer(ctx, tenant, reference); err != nil {
		return nil, err
	}
	all, err := s.InUse(ctx, tenant, reference)
	if err != nil {
		return nil, err
	}
	var found []Fact
	for _, hit := range recall.Search(Plain(all), query, most) {
		for _, f := range all {
			if f.ID == hit.ID {
				found = append(found, f)
			}
		}
	}
	return found, nil
}

// Plain returns the facts as they are ranked.
func Plain(all []Fact) []recall.Fact {
	list := make([]recall.Fact, len(all))
	for i, f := range all {
		list[i] = f.Fact
	}
	return list
}

// Get returns a fact of a customer. It refuses with CUSTOMER_NOT_FOUND and FACT_NOT_FOUND.
func (s *Service) Get(ctx context.Context, tenant uuid.UUID, reference string, id uuid.UUID) (Fact, error) {
	r, err := s.q.GetFact(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetFactParams{TenantID: tenant, Reference: reference, ID: id})
	if err != nil {
		return Fact{}, s.notFound(ctx, s.d.DB.Tenant(tenant), tenant, reference, err)
	}
	list, err := s.openAll(ctx, tenant, []dbsqlc.CustomerFact{r})
	if err != nil {
		return Fact{}, err
	}
	return list[0], nil
}

// notFound says what there is not, where a row was not found.
func (s *Service) notFound(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, reference string, err error) error {
	if !db.IsNoRows(err) {
		return fmt.Errorf("facts: read: %w", err)
	}
	if _, err := s.customer(ctx, tx, tenant, reference); err != nil {
		return err
	}
	return fault.New(fault.CodeFactNotFound, "")
}

// Patch changes a fact. What is nil stays as it is.
type Patch struct {
	Text    *string
	Profile *bool
	// Tainted: people say whether what stands there can be trusted. Only they set it to false.
	Tainted *bool
	Expect  fault.Expect[Fact]
}

// of returns the fact after the patch, and the names of the members that changed.
func (p Patch) of(f Fact) (Fact, []string, error) {
	changed := []string{}
	if p.Text != nil {
		text, err := checked(*p.Text)
		if err != nil {
			return f, nil, err
		}
		if text != f.Text {
			f.Text, changed = text, append(changed, "text")
		}
	}
	for _, m := range []struct {
		name string
		to   *bool
		has  *bool
	}{{"profile", p.Profile, &f.Profile}, {"tainted", p.Tainted, &f.Tainted}} {
		if m.to != nil && *m.to != *m.has {
			*m.has, changed = *m.to, append(changed, m.name)
		}
	}
	switch asked := p.Profile != nil && *p.Profile; {
	case asked && f.Tainted:
		return f, nil, fault.Invalid("/profile", "tainted", "A tainted fact is never of the profile. Set tainted to false as well, once you have looked at its text.")
	case f.Tainted && f.Profile:
		f.Profile, changed = false, append(changed, "profile")
	}
	return f, changed, nil
}

// Change patches a fact, and returns it. The text before is gone: to keep it, write one that supersedes
// it. It refuses with CUSTOMER_NOT_FOUND, FACT_NOT_FOUND, VALIDATION_ERROR, CONFLICT (another fact in
// use has the text), INSUFFICIENT_PERMISSIONS (a key that says that a fact can be trusted) and with what
// Expect returns.
func (s *Service) Change(ctx context.Context, who actor.Actor, reference string, id uuid.UUID, p Patch) (f Fact, err error) {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return f, fmt.Errorf("facts: %w", err)
	}
	err = s.locked(ctx, who, reference, id, func(tx pgx.Tx, now Fact) error {
		if err := p.Expect.Check(now); err != nil {
			return err
		}
		var changed []string
		if f, changed, err = p.of(now); err != nil || len(changed) == 0 {
			return err
		}
		if now.Tainted && !f.Tainted && who.Kind != actor.User {
			// A program that takes marks away would let through what policies stop in tainted sessions.
			return fault.New(fault.CodeInsufficientPermissions, "Only a person says that a tainted fact can be trusted: use a JWT of an owner or an admin.")
		}
		f.UpdatedAt = s.d.Now().UTC()
		b := &db.Batch{}
		db.QueueExec(b, s.q.UpdateFact, dbsqlc.UpdateFactParams{
			TenantID: who.TenantID, Customer: f.Customer, ID: id, Body: key.Seal(place(who.TenantID, id), []byte(f.Text)), Digest: digest(key, f.Text),
			Profile: f.Profile, Tainted: f.Tainted, Now: f.UpdatedAt,
		})
		rec := audit.Change(who, audit.FactChanged, audit.SubjectCustomer, f.Customer.String())
		audit.Queue(b, rec.With(map[string]any{"fact_id": id, "fields": changed}))
		return b.SendIn(ctx, tx)
	})
	if db.IsUnique(err, "customer_facts_digest") {
		return f, fault.New(fault.CodeConflict, "Another fact of the customer that is in use has this text.")
	}
	return f, err
}

// Delete deletes a fact. It refuses with CUSTOMER_NOT_FOUND, FACT_NOT_FOUND and with what expect returns.
func (s *Service) Delete(ctx context.Context, who actor.Actor, reference string, id uuid.UUID, expect fault.Expect[Fact]) error {
	return s.locked(ctx, who, reference, id, func(tx pgx.Tx, now Fact) error {
		if err := expect.Check(now); err != nil {
			return err
		}
		b := &db.Batch{}
		db.QueueExec(b, s.q.DeleteFact, dbsqlc.DeleteFactParams{TenantID: who.TenantID, Customer: now.Customer, ID: id})
		rec := audit.Change(who, audit.FactDeleted, audit.SubjectCustomer, now.Customer.String())
		audit.Queue(b, rec.With(map[string]any{"fact_id": id}))
		return b.SendIn(ctx, tx)
	})
}

// locked calls change with a fact, in a transaction that has locked it.
func (s *Service) locked(ctx context.Context, who actor.Actor, reference string, id uuid.UUID, change func(tx pgx.Tx, now Fact) error) error {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		r, err := s.q.LockFact(ctx, tx, dbsqlc.LockFactParams{TenantID: who.TenantID, Reference: reference, ID: id})
		if err != nil {
			return s.notFound(ctx, tx, who.TenantID, reference, err)
		}
		now, err := open(key, r)
		if err != nil {
			return err
		}
		return change(tx, now)
	})
	if err != nil {
		return fmt.Errorf("facts: change: %w", err)
	}
	return nil
}
