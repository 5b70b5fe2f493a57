// Package customer owns the people and companies that a tenant serves: their identifiers,
// attributes and tags, and what happens when one is merged, erased or exported. The api package
// calls it. It sends nothing, and calls no other domain package: what they store about a
// customer it reaches by the interface Holder.
package customer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/quota"
)

// Customer is the record of one customer. What is nil is not known.
type Customer struct {
	ID         uuid.UUID
	Email      *string // lower case
	Phone      *string // E.164
	ExternalID *string // the caller's own id
	Name       *string
	Metadata   json.RawMessage // an object
	// Claimed is an object of what callers and their visitors say of the customer. It is apart from what the
	// tenant knows, and names nobody.
	Claimed   json.RawMessage
	Tags      []string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Deps are what the service works with; Now may be nil.
type Deps struct {
	DB     *db.Pool
	Quotas quota.Limits
	// Holders are what is erased with a customer, in this order.
	Holders []Held
	// Moved moves what is kept by the id of a customer who is merged into another one; nil for nothing.
	Moved     func(b *db.Batch, tenant, into, from uuid.UUID)
	Workflows Workflows
	Log       *slog.Logger
	Now       func() time.Time
}

// Service keeps the customers of all tenants.
type Service struct {
	d Deps
	q *dbsqlc.Queries
	// swept is where the last pass of StartErasures stopped.
	swept sweptTo
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.Workflows == nil || d.Log == nil {
		return nil, errors.New("customer: a database, workflows and a log are required")
	}
	d.Now = db.Clock(d.Now)
	return &Service{d: d, q: dbsqlc.New()}, nil
}

// Get returns the tenant's customer that the reference names: our id, an external_id, or one of
// a customer that was merged into it. The error is CUSTOMER_NOT_FOUND for any other text.
func (s *Service) Get(ctx context.Context, tenant uuid.UUID, reference string) (Customer, error) {
	row, err := s.q.CustomerByIdentifier(ctx, s.d.DB.Tenant(tenant), dbsqlc.CustomerByIdentifierParams{TenantID: tenant, Identifier: kindReference + reference})
	switch {
	case db.IsNoRows(err):
		return Customer{}, fault.New(fault.CodeCustomerNotFound, "")
	case err != nil:
		return Customer{}, fmt.Errorf("customer: read: %w", err)
	}
	return customerOf(row), nil
}

// has reports whether the customer has the tag.
func (c Customer) has(tag string) bool { return slices.Contains(c.Tags, tag) }

func customerOf(r dbsqlc.Customer) Customer {
	return Customer{
		ID: r.ID, Email: r.Email, Phone: r.Phone, ExternalID: r.ExternalID, Name: r.Name, Metadata: r.Metadata, Claimed: r.Claimed, Tags: r.Tags,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}
