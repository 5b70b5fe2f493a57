package customer

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
)

// Filter narrows a list. A field with its zero value does not narrow it. At most one of Search,
// Email, Phone and ExternalID is set.
type Filter struct {
	// Search selects customers with a term that begins so, in the order of these terms.
	Search string
	Tag    string
	// Email, Phone and ExternalID select the customer that one names, in any form.
	Email, Phone, ExternalID string
	// Before continues a list after the customer with this id, and After a search.
	Before *uuid.UUID
	After  *Place
	Limit  int
}

// Place is where a page of a search ended.
type Place struct {
	Term string
	ID   uuid.UUID
}

// List returns the newest customers first, or those that a search finds in the order of what it
// finds, and whether there are more. last is where a search ended. The error is a
// VALIDATION_ERROR for filters that exclude each other, or an identifier without the right form.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Customer, last Place, more bool, err error) {
	identifier, err := f.identifier()
	switch {
	case err != nil:
		return nil, Place{}, false, err
	case identifier != "":
		page, err = s.named(ctx, tenant, identifier, f.Tag)
		return page, Place{}, false, err
	case f.Search != "":
		return s.search(ctx, tenant, f)
	}
	reading := s.d.DB.Reading(tenant, db.ListLimit)
	var rows []dbsqlc.Customer
	if f.Tag == "" {
		rows, err = s.q.ListCustomers(ctx, reading, dbsqlc.ListCustomersParams{TenantID: tenant, Before: f.Before, Most: int32(f.Limit + 1)})
	} else {
		rows, err = s.q.ListTaggedCustomers(ctx, reading, dbsqlc.ListTaggedCustomersParams{TenantID: tenant, Tag: f.Tag, Before: f.Before, Most: int32(f.Limit + 1)})
	}
	if err != nil {
		return nil, Place{}, false, fmt.Errorf("customer: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	for _, row := range rows {
		page = append(page, customerOf(row))
	}
	return page, Place{}, more, nil
}

// identifier returns the one that the filter asks for, "" for none.
func (f Filter) identifier() (string, error) {
	var found string
	given := 0
	if f.Search != "" {
		given++
	}
	for _, i := range []struct {
		kind, name, value string
		form              func(string) (string, error)
	}{
		{kindEmail, "email", f.Email, canonicalEmail},
		{kindPhone, "phone", f.Phone, canonicalPhone},
		{kindReference, "external_id", f.ExternalID, checkedExternal},
	} {
		if i.value == "" {
			continue
		}
		value, err := i.form(i.value)
		if err != nil {
			return "", fault.Invalid("query."+i.name, "format", err.Error())
		}
		found = i.kind + value
		given++
	}
	if given > 1 {
		return "", fault.Invalid("query", "filters", "Only one of search, email, phone and external_id can be sent.")
	}
	return found, nil
}

// named returns the customer that an identifier names, none where it lacks the tag.
func (s *Service) named(ctx context.Context, tenant uuid.UUID, identifier, tag string) ([]Customer, error) {
	row, err := s.q.CustomerByIdentifier(ctx, s.d.DB.Tenant(tenant), dbsqlc.CustomerByIdentifierParams{TenantID: tenant, Identifier: identifier})
	switch {
	case db.IsNoRows(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("customer: find: %w", err)
	}
	c := customerOf(row)
	if tag != "" && !c.has(tag) {
		return nil, nil
	}
	return []Customer{c}, nil
}

func (s *Service) search(ctx context.Context, tenant uuid.UUID, f Filter) (page []Customer, last Place, more bool, err error) {
	low := folded(f.Search)
	if low == "" {
		return nil, Place{}, false, fault.Invalid("query.search", "format", "search has at least one character that is no space.")
	}
	p := dbsqlc.SearchCustomersParams{TenantID: tenant, Low: low, High: low + "\U0010FFFF", Tag: db.Optional(f.Tag), Most: int32(f.Limit + 1)}
	if f.After != nil {
		p.AfterTerm, p.AfterID = f.After.Term, f.After.ID
	}
	rows, err := s.q.SearchCustomers(ctx, s.d.DB.Reading(tenant, db.ListLimit), p)
	if err != nil {
		return nil, Place{}, false, fmt.Errorf("customer: search: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	for _, r := range rows {
		last = Place{r.Term, r.ID}
		page = append(page, customerOf(dbsqlc.Customer{
			ID: r.ID, TenantID: r.TenantID, Email: r.Email, Phone: r.Phone, ExternalID: r.ExternalID, Name: r.Name,
			Metadata: r.Metadata, Claimed: r.Claimed, Tags: r.Tags, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}))
	}
	return page, last, more, nil
}
