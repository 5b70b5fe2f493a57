package customer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// errGone undoes a transaction whose customer another one has merged or erased meanwhile.
var errGone = errors.New("customer: another transaction removed the record")

// goneTries is how often a change is made whose customer was removed meanwhile. The second try
// finds what took its place; the third is in reserve.
const goneTries = 3

// Upsert returns the customer that the identifiers name, changed by what is given, or makes one.
// An identifier that differs from the customer's replaces it only where a stronger one has found
// the customer: external_id is stronger than email, and email stronger than phone. It refuses
// with VALIDATION_ERROR (no identifier, a wrong form), CONFLICT (identifiers of two customers,
// or a weaker one that would replace a stronger) and QUOTA_EXCEEDED.
func (s *Service) Upsert(ctx context.Context, who actor.Actor, in Identity) (c Customer, created bool, err error) {
	if in, err = in.checked(); err != nil {
		return Customer{}, false, err
	}
	if len(in.identifiers()) == 0 {
		return Customer{}, false, fault.Invalid("", "required", "A customer has at least one of email, phone and external_id.")
	}
	err = s.change(ctx, who, func(tx pgx.Tx) error {
		var err error
		c, created, err = s.upsert(ctx, tx, who, in)
		return err
	})
	if err != nil {
		return Customer{}, false, fmt.Errorf("customer: upsert: %w", err)
	}
	return c, created, nil
}

// change runs fn in a transaction of the tenant, and again where its customer was removed
// meanwhile, or where it and a transaction of a session waited for each other.
func (s *Service) change(ctx context.Context, who actor.Actor, fn func(pgx.Tx) error) (err error) {
	for range goneTries {
		if err = s.d.DB.InTenant(ctx, who.TenantID, fn); !errors.Is(err, errGone) && !db.IsDeadlock(err) {
			return err
		}
	}
	return err
}

func (s *Service) upsert(ctx context.Context, tx pgx.Tx, who actor.Actor, in Identity) (Customer, bool, error) {
	owners, err := s.claim(ctx, tx, who.TenantID, in.identifiers())
	if err != nil {
		return Customer{}, false, err
	}
	found := owners.customers()
	switch {
	case len(found) > 1:
		return Customer{}, false, owners.conflict(found)
	case len(found) == 0:
		c, err := s.create(ctx, tx, who, in)
		return c, true, err
	}
	old, err := s.lock(ctx, tx, who.TenantID, found[0])
	if err != nil {
		return Customer{}, false, err
	}
	next, err := old.updated(in, owners, owners.name(kindReference, in.ExternalID))
	if err != nil {
		return Customer{}, false, err
	}
	next.UpdatedAt = s.d.Now()
	b := &db.Batch{}
	idempotency.Queue(ctx, b, old.ID.String())
	if fields := s.queueUpdate(b, who.TenantID, old, next, owners); len(fields) > 0 {
		audit.Queue(b, record(who, audit.CustomerUpdated, old.ID, fields))
	} else {
		next = old
	}
	return next, false, b.SendIn(ctx, tx)
}

// owners says whom each of some identifiers names; those that name nobody are absent.
type owners map[string]uuid.UUID

// claim waits for the calls that name one of the identifiers, and returns whom each names.
func (s *Service) claim(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, identifiers []string) (owners, error) {
	b := &db.Batch{}
	db.QueueExec(b, s.q.LockIdentifiers, dbsqlc.LockIdentifiersParams{TenantID: tenant, Identifiers: identifiers})
	rows := db.Queue(b, s.q.FindIdentifiers, dbsqlc.FindIdentifiersParams{TenantID: tenant, Identifiers: identifiers})
	if err := b.SendIn(ctx, tx); err != nil {
		return nil, err
	}
	o := owners{}
	for _, r := range rows.Value {
		o[r.Identifier] = r.CustomerID
	}
	return o, nil
}

// customers returns whom the identifiers name, each once.
func (o owners) customers() []uuid.UUID {
	var list []uuid.UUID
	for _, id := range o {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return list
}

// conflict returns the refusal of identifiers that name several customers.
func (o owners) conflict(found []uuid.UUID) *fault.Error {
	f := fault.New(fault.CodeConflict, "The identifiers belong to several customers. Merge them with POST /v1/customers/{id}/merge, or send fewer identifiers.")
	for _, id := range found {
		f.CustomerIDs = append(f.CustomerIDs, id.String())
	}
	for identifier, id := range o {
		f.Details = append(f.Details, fault.Detail{Path: memberOf(identifier), Rule: "conflict", Message: "This belongs to the customer " + id.String() + "."})
	}
	slices.SortFunc(f.Details, func(a, b fault.Detail) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return f
}

// lock reads the customer, which no other transaction changes then. The error is errGone where
// it was removed.
func (s *Service) lock(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (Customer, error) {
	row, err := s.q.LockCustomer(ctx, tx, dbsqlc.LockCustomerParams{TenantID: tenant, ID: id})
	if db.IsNoRows(err) {
		return Customer{}, errGone
	}
	return customerOf(row), err
}

// name reports whether the identifier names a customer.
func (o owners) name(kind string, value *string) bool {
	_, known := o[kind+db.Text(value)]
	return known
}

// updated returns the customer after an upsert. The identifiers that are not in owners are new
// to all. byReference: an id or an external_id has found the customer. The error is a CONFLICT or
// a VALIDATION_ERROR.
func (c Customer) updated(in Identity, owners owners, byReference bool) (Customer, error) {
	if in.Word {
		var err error
		c.Claimed, err = in.claims(c)
		return c, err
	}
	known := owners.name
	replaces := func(kind string, has, given *string) bool { return given != nil && has != nil && !known(kind, given) }
	byEmail := known(kindEmail, in.Email)
	switch {
	case replaces(kindReference, c.ExternalID, in.ExternalID):
		return c, c.kept("/external_id", "The customer has another external_id, which it keeps. If both are one person, create the other customer by external_id alone, and merge.")
	case replaces(kindEmail, c.Email, in.Email) && !byReference:
		return c, c.kept("/email", "The phone number belongs to a customer with another email. Send external_id too, or change the customer with PATCH.")
	case replaces(kindPhone, c.Phone, in.Phone) && !byReference && !byEmail:
		return c, c.kept("/phone", "The customer has another phone number.")
	}
	if in.ExternalID != nil && !known(kindReference, in.ExternalID) {
		c.ExternalID = in.ExternalID
	}
	if in.Email != nil && !byEmail {
		c.Email = in.Email
	}
	if in.Phone != nil && !known(kindPhone, in.Phone) {
		c.Phone = in.Phone
	}
	if in.Name != nil {
		c.Name = in.Name
	}
	if in.Tags != nil {
		c.Tags = in.Tags
	}
	var err error
	c.Metadata, err = mergePatch(c.Metadata, in.Metadata)
	return c, err
}

// kept returns the refusal of an identifier that would replace the customer's.
func (c Customer) kept(path, message string) *fault.Error {
	f := fault.New(fault.CodeConflict, message)
	f.CustomerIDs = []string{c.ID.String()}
	f.Details = []fault.Detail{{Path: path, Rule: "conflict", Message: message}}
	return f
}

func (s *Service) create(ctx context.Context, tx pgx.Tx, who actor.Actor, in Identity) (Customer, error) {
	now := s.d.Now()
	c := Customer{
		ID: uuid.Must(uuid.NewV7()), Email: in.Email, Phone: in.Phone, ExternalID: in.ExternalID, Name: in.Name, Tags: append([]string{}, in.Tags...),
		Metadata: json.RawMessage("{}"), Claimed: json.RawMessage("{}"), CreatedAt: now, UpdatedAt: now,
	}
	var err error
	if in.Word {
		c.Tags = []string{}
		c.Claimed, err = in.claims(c)
	} else {
		c.Metadata, err = mergePatch(c.Metadata, in.Metadata)
	}
	if err != nil {
		return Customer{}, err
	}
	b := &db.Batch{}
	idempotency.Queue(ctx, b, c.ID.String())
	db.QueueExec(b, s.q.InsertCustomer, dbsqlc.InsertCustomerParams{
		ID: c.ID, TenantID: who.TenantID, Email: c.Email, Phone: c.Phone, ExternalID: c.ExternalID, Name: c.Name,
		Metadata: c.Metadata, Claimed: c.Claimed, Tags: c.Tags, CreatedAt: c.CreatedAt,
	})
	db.QueueExec(b, s.q.InsertIdentifiers, dbsqlc.InsertIdentifiersParams{TenantID: who.TenantID, CustomerID: c.ID, Identifiers: c.identifiers()})
	db.QueueExec(b, s.q.InsertTerms, dbsqlc.InsertTermsParams{TenantID: who.TenantID, CustomerID: c.ID, Terms: c.terms()})
	if len(c.Tags) > 0 {
		db.QueueExec(b, s.q.InsertTags, dbsqlc.InsertTagsParams{TenantID: who.TenantID, CustomerID: c.ID, Tags: c.Tags})
	}
	fields := Customer{Metadata: json.RawMessage("{}"), Claimed: json.RawMessage("{}")}.differs(c)
	audit.Queue(b, record(who, audit.CustomerCreated, c.ID, fields))
	event.Queue(b, event.Event{TenantID: who.TenantID, About: event.About{CustomerID: c.ID.String()}, Body: event.NewCustomer{Fields: fields}})
	limits := s.d.Quotas
	if who.Visited {
		limits = limits.Visited()
	}
	limits.Queue(b, who.TenantID, quota.Customers)
	return c, b.SendIn(ctx, tx)
}

// differs returns the names of the fields in which the two records differ.
func (c Customer) differs(next Customer) []string {
	fields := []string{}
	for _, f := range []struct {
		name string
		same bool
	}{
		{"email", same(c.Email, next.Email)},
		{"phone", same(c.Phone, next.Phone)},
		{"external_id", same(c.ExternalID, next.ExternalID)},
		{"name", same(c.Name, next.Name)},
		{"metadata", bytes.Equal(c.Metadata, next.Metadata)},
		{"claimed", bytes.Equal(c.Claimed, next.Claimed)},
		{"tags", slices.Equal(c.Tags, next.Tags)},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}

func same(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// queueUpdate writes the record as it is next, and returns the names of the fields that
// change; where there are none, it writes nothing. owners are those of the new identifiers.
func (s *Service) queueUpdate(b *db.Batch, tenant uuid.UUID, old, next Customer, owners owners) []string {
	fields := old.differs(next)
	if len(fields) == 0 {
		return nil
	}
	db.QueueExec(b, s.q.UpdateCustomer, dbsqlc.UpdateCustomerParams{
		TenantID: tenant, ID: old.ID, Email: next.Email, Phone: next.Phone, ExternalID: next.ExternalID, Name: next.Name,
		Metadata: next.Metadata, Claimed: next.Claimed, Tags: next.Tags, UpdatedAt: next.UpdatedAt,
	})
	had, has := old.identifiers(), next.identifiers()
	gone := slices.DeleteFunc(slices.Clone(had), func(i string) bool { return slices.Contains(has, i) })
	added := slices.DeleteFunc(slices.Clone(has), func(i string) bool {
		_, known := owners[i]
		return known || slices.Contains(had, i)
	})
	if len(gone) > 0 {
		db.QueueExec(b, s.q.DeleteIdentifiers, dbsqlc.DeleteIdentifiersParams{TenantID: tenant, CustomerID: old.ID, Identifiers: gone})
	}
	if len(added) > 0 {
		db.QueueExec(b, s.q.InsertIdentifiers, dbsqlc.InsertIdentifiersParams{TenantID: tenant, CustomerID: old.ID, Identifiers: added})
	}
	if terms := next.terms(); !slices.Equal(old.terms(), terms) {
		db.QueueExec(b, s.q.DeleteTerms, dbsqlc.DeleteTermsParams{TenantID: tenant, CustomerID: old.ID})
		db.QueueExec(b, s.q.InsertTerms, dbsqlc.InsertTermsParams{TenantID: tenant, CustomerID: old.ID, Terms: terms})
	}
	if !slices.Equal(old.Tags, next.Tags) {
		db.QueueExec(b, s.q.DeleteTags, dbsqlc.DeleteTagsParams{TenantID: tenant, CustomerID: old.ID})
		db.QueueExec(b, s.q.InsertTags, dbsqlc.InsertTagsParams{TenantID: tenant, CustomerID: old.ID, Tags: next.Tags})
	}
	return fields
}

// record is the audit record of a change. It names the fields that changed and has no value of
// them: what an immutable record contains could not be erased.
func record(who actor.Actor, action audit.Action, id uuid.UUID, fields []string) audit.Record {
	return audit.Change(who, action, audit.SubjectCustomer, id.String()).With(map[string]any{"fields": fields})
}
