package customer

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// maxReferences is how many texts may name one customer: a call for a customer looks for the
// credentials of each.
const maxReferences = 100

// Merge makes one customer of two: the one that the reference names gets the identifiers of the
// other, and what it lacks of its attributes. All that named the other names this one from then
// on. It refuses with CUSTOMER_NOT_FOUND, VALIDATION_ERROR (one customer twice, or too much
// metadata or too many tags together) and CONFLICT (too many references).
func (s *Service) Merge(ctx context.Context, who actor.Actor, reference, other string) (c Customer, err error) {
	err = s.change(ctx, who, func(tx pgx.Tx) error {
		owners, err := s.claim(ctx, tx, who.TenantID, []string{kindReference + reference, kindReference + other})
		if err != nil {
			return err
		}
		into, known := owners[kindReference+reference]
		from, knownToo := owners[kindReference+other]
		switch {
		case !known || !knownToo:
			return fault.New(fault.CodeCustomerNotFound, "")
		case into == from:
			return fault.Invalid("/customer_id", "reference", "customer_id names the same customer. A merge takes two.")
		}
		c, err = s.merge(ctx, tx, who, into, from)
		return err
	})
	if err != nil {
		return Customer{}, fmt.Errorf("customer: merge: %w", err)
	}
	return c, nil
}

func (s *Service) merge(ctx context.Context, tx pgx.Tx, who actor.Actor, into, from uuid.UUID) (Customer, error) {
	pair := []uuid.UUID{into, from}
	slices.SortFunc(pair, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	locked := map[uuid.UUID]Customer{}
	for _, id := range pair { // in one order, so that two merges cannot wait for each other
		c, err := s.lock(ctx, tx, who.TenantID, id)
		if err != nil {
			return Customer{}, err
		}
		locked[id] = c
	}
	old, gone := locked[into], locked[from]
	n, err := s.q.CountIdentifiers(ctx, tx, dbsqlc.CountIdentifiersParams{TenantID: who.TenantID, CustomerIds: pair, Most: maxReferences + 1})
	if err != nil {
		return Customer{}, err
	}
	if n > maxReferences {
		return Customer{}, old.kept("/customer_id", fmt.Sprintf("The two customers have more than %d identifiers together.", maxReferences))
	}
	next, err := old.with(gone)
	if err != nil {
		return Customer{}, err
	}
	next.UpdatedAt = s.d.Now()
	b := &db.Batch{}
	db.QueueExec(b, s.q.MoveIdentifiers, dbsqlc.MoveIdentifiersParams{TenantID: who.TenantID, CustomerID: into, MergedID: from})
	if s.d.Moved != nil {
		s.d.Moved(b, who.TenantID, into, from)
	}
	db.QueueExec(b, s.q.DeleteCustomer, dbsqlc.DeleteCustomerParams{TenantID: who.TenantID, ID: from})
	moved := owners{}
	for _, i := range gone.identifiers() {
		moved[i] = into
	}
	fields := s.queueUpdate(b, who.TenantID, old, next, moved)
	rec := record(who, audit.CustomerMerged, into, fields)
	audit.Queue(b, rec.With(map[string]any{"fields": append([]string{}, fields...), "merged_id": from}))
	event.Queue(b, event.Event{TenantID: who.TenantID, About: event.About{CustomerID: into.String()}, Body: event.MergedCustomer{MergedID: from.String()}})
	return next, b.SendIn(ctx, tx)
}

// with returns the customer with what it lacks of another one. Its own attributes stay, also
// where both have a member of metadata.
func (c Customer) with(other Customer) (Customer, error) {
	for _, m := range []struct{ has, gets **string }{
		{&c.Email, &other.Email}, {&c.Phone, &other.Phone}, {&c.ExternalID, &other.ExternalID}, {&c.Name, &other.Name},
	} {
		if *m.has == nil {
			*m.has = *m.gets
		}
	}
	c.Tags = slices.Clone(c.Tags)
	for _, tag := range other.Tags {
		if !c.has(tag) {
			c.Tags = append(c.Tags, tag)
		}
	}
	if len(c.Tags) > maxTags {
		return c, fault.Invalid("/customer_id", "maxItems", fmt.Sprintf("The two customers have more than %d tags together.", maxTags))
	}
	var err error
	if c.Claimed, err = mergePatch(other.Claimed, c.Claimed); err != nil {
		return c, err
	}
	c.Metadata, err = mergePatch(other.Metadata, c.Metadata)
	return c, err
}
