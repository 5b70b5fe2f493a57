package customer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// Mode is the identity_mode of an API key: what a message does with the identity it carries.
type Mode string

// The modes.
const (
	Anonymous  Mode = "anonymous"  // the identity is ignored, and nothing is stored
	Identified Mode = "identified" // it is used where there is one
	Required   Mode = "required"   // there must be one
)

// Presented is for whom a message says that it is.
type Presented struct {
	Mode Mode
	// CustomerID is our id or the caller's; "" for none.
	CustomerID string
	// Identity is the identity object of the message, nil for none.
	Identity json.RawMessage
	// Secrets are those under which the tenant's server vouches for its customers, and Hash is its word.
	// Without secrets, the message is taken at its word.
	Secrets [][]byte
	Hash    string
}

// Check returns VALIDATION_ERROR where the identity has a wrong form, and IDENTITY_REQUIRED where there
// must be one and is none.
func (p Presented) Check() error {
	if p.Mode == Anonymous {
		return nil
	}
	in, err := identityOf(p.Identity)
	if err == nil {
		err = p.verify(in)
	}
	if err == nil && p.Mode == Required && p.CustomerID == "" && len(in.identifiers()) == 0 {
		return fault.New(fault.CodeIdentityRequired, "")
	}
	return err
}

// Recognized is the customer of a message.
type Recognized struct {
	Customer Customer
	// Created: the message has made the customer.
	Created bool
	// Ignored has the members of the identity that were not used, because they belong to another
	// customer or would replace what a stronger identifier has set.
	Ignored []string
}

// Identify returns the customer of a message, nil where it has none. It finds the customer by
// customer_id, otherwise by the strongest identifier of the identity; it makes one where there is
// none. What an identity says for which nobody vouches is kept as Claimed. customer_id wins over the identity, and no conflict
// refuses a message. It refuses with IDENTITY_REQUIRED, VALIDATION_ERROR and QUOTA_EXCEEDED.
func (s *Service) Identify(ctx context.Context, who actor.Actor, p Presented) (*Recognized, error) {
	if p.Mode == Anonymous {
		return nil, nil //nolint:nilnil // the message has no customer
	}
	in, err := identityOf(p.Identity)
	if err != nil {
		return nil, err
	}
	if p.CustomerID == "" && len(in.identifiers()) == 0 {
		if p.Mode == Required {
			return nil, fault.New(fault.CodeIdentityRequired, "")
		}
		return nil, nil //nolint:nilnil // the message has no customer
	}
	if err := p.verify(in); err != nil {
		return nil, err
	}
	in, ignored := p.covered(in)
	in.Word = len(p.Secrets) == 0
	if p.CustomerID != "" && len(p.Identity) == 0 {
		c, err := s.Get(ctx, who.TenantID, p.CustomerID)
		if !fault.HasCode(err, fault.CodeCustomerNotFound) {
			return &Recognized{Customer: c}, err
		}
	}
	var r Recognized
	err = s.change(ctx, who, func(tx pgx.Tx) error {
		r = Recognized{Ignored: slices.Clone(ignored)}
		return s.identify(ctx, tx, who, p.CustomerID, in, &r)
	})
	if err != nil {
		return nil, fmt.Errorf("customer: identify: %w", err)
	}
	return &r, nil
}

// identityOf reads an identity object. Members that it does not know go to metadata.
func identityOf(raw json.RawMessage) (in Identity, err error) {
	given, isObject := members(raw)
	if len(raw) > 0 && string(raw) != "null" && !isObject {
		return in, fault.Invalid("/identity", "type", "identity is an object.")
	}
	more := map[string]json.RawMessage{}
	for name, value := range given {
		var text *string
		switch name {
		case "email", "phone", "name", "external_id":
			if json.Unmarshal(value, &text) != nil {
				return in, fault.Invalid("/identity/"+name, "type", name+" is a string.")
			}
		}
		switch name {
		case "email":
			in.Email = text
		case "phone":
			in.Phone = text
		case "name":
			in.Name = text
		case "external_id":
			in.ExternalID = text
		case "metadata":
			if _, isObject := members(value); !isObject && string(value) != "null" {
				return in, fault.Invalid("/identity/metadata", "type", "metadata is an object.")
			}
			in.Metadata = value
		default:
			more[name] = value
		}
	}
	if string(in.Metadata) == "null" {
		in.Metadata = nil
	}
	if len(more) > 0 {
		rest, err := exactjson.Encode(more)
		if err != nil {
			return in, fmt.Errorf("customer: identity: %w", err)
		}
		in.Metadata = merge(rest, in.Metadata)
		if len(in.Metadata) == 0 {
			in.Metadata = rest
		}
	}
	in, err = in.checked()
	if f := fault.As(err); f != nil {
		for i := range f.Details {
			f.Details[i].Path = "/identity" + f.Details[i].Path
		}
	}
	return in, err
}

func (s *Service) identify(ctx context.Context, tx pgx.Tx, who actor.Actor, reference string, in Identity, r *Recognized) error {
	asked := in.identifiers()
	if reference != "" {
		asked = append([]string{kindReference + reference}, asked...)
	}
	owners, err := s.claim(ctx, tx, who.TenantID, asked)
	if err != nil {
		return err
	}
	found := uuid.Nil
	for _, identifier := range asked { // the strongest first
		if id, known := owners[identifier]; known && found == uuid.Nil {
			found = id
		}
		if reference != "" { // which alone says who it is
			break
		}
	}
	in = r.leave(in, func(kind string, value *string) bool {
		id, known := owners[kind+*value]
		return known && id != found
	})
	if found == uuid.Nil {
		if reference != "" {
			if _, err := checkedExternal(reference); err != nil {
				return fault.Invalid("/customer_id", "format", "customer_id is 1 to 255 visible ASCII characters.")
			}
			in = r.leave(in, func(kind string, value *string) bool { return kind == kindReference && *value != reference })
			in.ExternalID = &reference
		}
		r.Created = true
		r.Customer, err = s.create(ctx, tx, who, in)
		return err
	}
	return s.recognize(ctx, tx, who, found, in, owners, reference != "", r)
}

// leave returns the identity without the identifiers that are to be ignored.
func (r *Recognized) leave(in Identity, ignored func(kind string, value *string) bool) Identity {
	for _, m := range []struct {
		kind string
		has  **string
	}{{kindReference, &in.ExternalID}, {kindEmail, &in.Email}, {kindPhone, &in.Phone}} {
		if *m.has != nil && ignored(m.kind, *m.has) {
			r.Ignored = append(r.Ignored, "identity."+strings.TrimPrefix(memberOf(m.kind), "/"))
			*m.has = nil
		}
	}
	return in
}

// recognize updates the customer that was found by what the identity says. What would replace a
// stronger identifier is left out.
func (s *Service) recognize(ctx context.Context, tx pgx.Tx, who actor.Actor, id uuid.UUID, in Identity, owners owners, byReference bool, r *Recognized) error {
	old, err := s.lock(ctx, tx, who.TenantID, id)
	if err != nil {
		return err
	}
	if in.Word {
		has := map[string]*string{kindReference: old.ExternalID, kindEmail: old.Email, kindPhone: old.Phone}
		in = r.leave(in, func(kind string, value *string) bool { return has[kind] != nil && !same(has[kind], value) })
	}
	byReference = byReference || owners.name(kindReference, in.ExternalID)
	next, err := old.updated(in, owners, byReference)
	for fault.HasCode(err, fault.CodeConflict) { // at most once for each identifier
		path := fault.As(err).Details[0].Path
		in = r.leave(in, func(kind string, _ *string) bool { return memberOf(kind) == path })
		next, err = old.updated(in, owners, byReference)
	}
	if err != nil {
		return err
	}
	next.UpdatedAt = s.d.Now()
	b := &db.Batch{}
	fields := s.queueUpdate(b, who.TenantID, old, next, owners)
	if r.Customer = next; len(fields) == 0 {
		r.Customer = old
		return nil
	}
	slices.Sort(r.Ignored)
	audit.Queue(b, record(who, audit.CustomerUpdated, old.ID, fields))
	return b.SendIn(ctx, tx)
}
