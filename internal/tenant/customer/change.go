package customer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// Patch changes a customer. What is nil stays as it is; a pointer to nil removes.
type Patch struct {
	Email, Phone, ExternalID, Name **string
	// Metadata is a JSON Merge Patch (RFC 7396); null removes all members.
	Metadata json.RawMessage
	Tags     []string
	// Expect is asked about the customer before the change.
	Expect fault.Expect[Customer]
}

// identity returns what the patch sets.
func (p Patch) identity() Identity {
	set := func(member **string) *string {
		if member == nil {
			return nil
		}
		return *member
	}
	return Identity{Email: set(p.Email), Phone: set(p.Phone), ExternalID: set(p.ExternalID), Name: set(p.Name), Metadata: p.Metadata, Tags: p.Tags}
}

// of returns the customer after the patch, whose values were checked. The error is a CONFLICT
// for another external_id, and a VALIDATION_ERROR.
func (p Patch) of(c Customer, in Identity) (Customer, error) {
	next := c
	for _, m := range []struct {
		patched **string
		to      *string
		has     **string
	}{{p.Email, in.Email, &next.Email}, {p.Phone, in.Phone, &next.Phone}, {p.ExternalID, in.ExternalID, &next.ExternalID}, {p.Name, in.Name, &next.Name}} {
		if m.patched != nil {
			*m.has = m.to
		}
	}
	if c.ExternalID != nil && !same(c.ExternalID, next.ExternalID) {
		return c, c.kept("/external_id", "A customer keeps its external_id: calls, credentials and grants name it. Merge the customer into one with the other external_id.")
	}
	if next.Email == nil && next.Phone == nil && next.ExternalID == nil {
		return c, fault.Invalid("", "required", "A customer keeps at least one of email, phone and external_id.")
	}
	if in.Tags != nil {
		next.Tags = in.Tags
	}
	if string(p.Metadata) == "null" {
		next.Metadata = json.RawMessage("{}")
		return next, nil
	}
	var err error
	next.Metadata, err = mergePatch(c.Metadata, p.Metadata)
	return next, err
}

// Change patches the customer that the reference names, and returns it. It refuses with
// CUSTOMER_NOT_FOUND, VALIDATION_ERROR, CONFLICT (an identifier of another customer, another
// external_id) and with what Expect returns.
func (s *Service) Change(ctx context.Context, who actor.Actor, reference string, p Patch) (c Customer, err error) {
	in, err := p.identity().checked()
	if err != nil {
		return Customer{}, err
	}
	err = s.change(ctx, who, func(tx pgx.Tx) error {
		// The identifiers come before the row, in every transaction.
		owners, err := s.claim(ctx, tx, who.TenantID, append(in.identifiers(), kindReference+reference))
		if err != nil {
			return err
		}
		id, known := owners[kindReference+reference]
		if !known {
			return fault.New(fault.CodeCustomerNotFound, "")
		}
		old, err := s.lock(ctx, tx, who.TenantID, id)
		if err != nil {
			return err
		}
		if err := p.Expect.Check(old); err != nil {
			return err
		}
		if found := owners.customers(); len(found) > 1 {
			return owners.conflict(found)
		}
		if c, err = p.of(old, in); err != nil {
			return err
		}
		c.UpdatedAt = s.d.Now()
		b := &db.Batch{}
		fields := s.queueUpdate(b, who.TenantID, old, c, owners)
		if len(fields) == 0 {
			c = old
			return nil
		}
		audit.Queue(b, record(who, audit.CustomerUpdated, old.ID, fields))
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return Customer{}, fmt.Errorf("customer: change: %w", err)
	}
	return c, nil
}
