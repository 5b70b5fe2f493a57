package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/customer"
)

// Customers is what the customer endpoints need of the domain.
type Customers interface {
	Upsert(ctx context.Context, who actor.Actor, in customer.Identity) (c customer.Customer, created bool, err error)
	Get(ctx context.Context, tenant uuid.UUID, reference string) (customer.Customer, error)
	List(ctx context.Context, tenant uuid.UUID, f customer.Filter) (page []customer.Customer, last customer.Place, more bool, err error)
	Change(ctx context.Context, who actor.Actor, reference string, p customer.Patch) (customer.Customer, error)
	Merge(ctx context.Context, who actor.Actor, reference, other string) (customer.Customer, error)
	Erase(ctx context.Context, who actor.Actor, reference string, expect fault.Expect[customer.Customer]) (customer.Erasure, error)
	Erasure(ctx context.Context, tenant, id uuid.UUID) (customer.Erasure, error)
	Export(ctx context.Context, who actor.Actor, reference string) (customer.Export, error)
	StillThere(ctx context.Context, tenant uuid.UUID, e customer.Export) error
}

type customerView struct {
	ID         uuid.UUID       `json:"id"`
	Email      *string         `json:"email"`
	Phone      *string         `json:"phone"`
	ExternalID *string         `json:"external_id"`
	Name       *string         `json:"name"`
	Metadata   json.RawMessage `json:"metadata"`
	Claimed    json.RawMessage `json:"claimed"`
	Tags       []string        `json:"tags"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updated_at"`

	repeatMark
}

func viewCustomer(c customer.Customer) customerView {
	return customerView{
		ID: c.ID, Email: c.Email, Phone: c.Phone, ExternalID: c.ExternalID, Name: c.Name, Metadata: c.Metadata, Claimed: c.Claimed, Tags: wire.Array(c.Tags),
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
}

type customerBody struct {
	Email      *string         `json:"email"`
	Phone      *string         `json:"phone"`
	ExternalID *string         `json:"external_id"`
	Name       *string         `json:"name"`
	Metadata   json.RawMessage `json:"metadata"`
	Tags       []string        `json:"tags"`
}

// putCustomer answers 201 with a new customer, and 200 with the one that has an identifier.
func (h *customerHandlers) putCustomer(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b customerBody
	if err := c.DecodeExact(&b, "/metadata"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := customer.Identity{Email: b.Email, Phone: b.Phone, ExternalID: b.ExternalID, Name: b.Name, Tags: b.Tags, Metadata: v.Object("/metadata", b.Metadata, false)}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	in.Word = !c.ManagesCustomers
	got, created, err := h.customers.Upsert(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	rep := wire.Created("/v1/customers/"+got.ID.String(), viewCustomer(got))
	if !created {
		rep.Status = http.StatusOK
	}
	return rep, nil
}

func (h *customerHandlers) getCustomer(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	got, err := h.customers.Get(ctx, c.Actor.TenantID, c.Param("id"))
	return wire.Answer(viewCustomer, got, err)
}

func customerTag(c customer.Customer) string { return wire.ViewTag(viewCustomer(c)) }

// customerPatch: null differs from absent, and removes.
type customerPatch struct {
	Email      json.RawMessage `json:"email"`
	Phone      json.RawMessage `json:"phone"`
	ExternalID json.RawMessage `json:"external_id"`
	Name       json.RawMessage `json:"name"`
	Metadata   json.RawMessage `json:"metadata"`
	Tags       []string        `json:"tags"`
}

// patch checks the form of the body.
func (b customerPatch) patch() (customer.Patch, error) {
	var v wire.Validation
	text := func(path string, raw json.RawMessage) **string {
		if len(raw) == 0 {
			return nil
		}
		var value *string
		if json.Unmarshal(raw, &value) != nil {
			v.Add(path, "type", path[1:]+" is a string, or null.")
		}
		return &value
	}
	p := customer.Patch{
		Email: text("/email", b.Email), Phone: text("/phone", b.Phone), ExternalID: text("/external_id", b.ExternalID), Name: text("/name", b.Name),
		Metadata: b.Metadata, Tags: b.Tags,
	}
	v.Object("/metadata", b.Metadata, false)
	return p, v.Err()
}

func (h *customerHandlers) patchCustomer(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b customerPatch
	if err := c.DecodeExact(&b, "/metadata"); err != nil {
		return wire.Reply{}, err
	}
	p, err := b.patch()
	if err != nil {
		return wire.Reply{}, err
	}
	p.Expect = wire.Expect(c, customerTag)
	got, err := h.customers.Change(ctx, c.Actor, c.Param("id"), p)
	return wire.Answer(viewCustomer, got, err)
}

type customerMerge struct {
	CustomerID *string `json:"customer_id"`
}

func (h *customerHandlers) mergeCustomer(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b customerMerge
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	v.Required("/customer_id", b.CustomerID)
	other := v.OptionalID("/customer_id", b.CustomerID)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	got, err := h.customers.Merge(ctx, c.Actor, c.Param("id"), other)
	return wire.Answer(viewCustomer, got, err)
}

func (h *customerHandlers) listCustomers(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, err := customerFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	customers, place, more, err := h.customers.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	if f.Search != "" {
		return wire.List(f.Limit, customers, more, viewCustomer, func(customer.Customer) string { return placeText(place) }), nil
	}
	return wire.ListByID(f.Limit, customers, more, viewCustomer, func(one customer.Customer) uuid.UUID { return one.ID }), nil
}

func customerFilter(c *wire.Call) (f customer.Filter, err error) {
	if f.Limit, err = c.Limit(); err != nil {
		return f, err
	}
	var v wire.Validation
	f.Search, f.Tag = v.QueryText(c, "search"), v.QueryText(c, "tag")
	f.Email, f.Phone, f.ExternalID = v.QueryText(c, "email"), v.QueryText(c, "phone"), v.QueryText(c, "external_id")
	if len(f.Search) > maxSearch {
		v.Add("query.search", "maxLength", "search has at most 120 bytes.")
	}
	if err := v.Err(); err != nil {
		return f, err
	}
	if f.Search == "" {
		f.Before, err = c.CursorID()
		return f, err
	}
	text, err := c.CursorText()
	if err != nil || text == "" {
		return f, err
	}
	f.After, err = placeOf(text)
	return f, err
}

// maxSearch is the longest search, in bytes: as long as what is searched.
const maxSearch = 120

// placeText writes where a page of a search ended: the id, and the term in base64.
func placeText(p customer.Place) string {
	return p.ID.String() + base64.RawURLEncoding.EncodeToString([]byte(p.Term))
}

func placeOf(text string) (*customer.Place, error) {
	const idLength = 36
	if len(text) > idLength {
		id, err := uuid.Parse(text[:idLength])
		term, badTerm := base64.RawURLEncoding.DecodeString(text[idLength:])
		if err == nil && badTerm == nil && utf8.Valid(term) && !bytes.ContainsRune(term, 0) {
			return &customer.Place{Term: string(term), ID: id}, nil
		}
	}
	return nil, fault.Invalid("query.cursor", "format", "cursor is the next_cursor of an earlier answer.")
}
