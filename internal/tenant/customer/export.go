package customer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// Export is what an export of a customer begins with. The rest is read by Names.
type Export struct {
	Customer Customer
	// At is when the export began. What came to be later is not in it.
	At time.Time
	// Identifiers are all that name the customer.
	Identifiers []Identifier
	// Names are the texts by which calls name the customer.
	Names []string
}

// Identifier is one text that names a customer. Kind is email, phone or id, which is ours or the
// tenant's own.
type Identifier struct{ Kind, Value string }

// Export begins an export: it returns the record, and writes the audit record before anything
// leaves. The error is CUSTOMER_NOT_FOUND.
func (s *Service) Export(ctx context.Context, who actor.Actor, reference string) (e Export, err error) {
	e.At = s.d.Now()
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.CustomerByIdentifier(ctx, tx, dbsqlc.CustomerByIdentifierParams{TenantID: who.TenantID, Identifier: kindReference + reference})
		if db.IsNoRows(err) {
			return fault.New(fault.CodeCustomerNotFound, "")
		}
		if err != nil {
			return err
		}
		e.Customer = customerOf(row)
		texts, err := s.q.CustomerIdentifiers(ctx, tx, dbsqlc.CustomerIdentifiersParams{TenantID: who.TenantID, CustomerID: row.ID})
		if err != nil {
			return err
		}
		e.Identifiers, e.Names = []Identifier{}, []string{}
		for _, text := range texts {
			kind, value, _ := strings.Cut(text, ":")
			e.Identifiers = append(e.Identifiers, Identifier{kind, value})
			if kind+":" == kindReference {
				e.Names = append(e.Names, value)
			}
		}
		return audit.Append(ctx, tx, audit.Change(who, audit.CustomerExported, audit.SubjectCustomer, row.ID.String()))
	})
	if err != nil {
		return Export{}, fmt.Errorf("customer: export: %w", err)
	}
	return e, nil
}

// StillThere returns the fault CUSTOMER_NOT_FOUND where the customer was erased or merged into
// another one since the export began: it may then lack a part.
func (s *Service) StillThere(ctx context.Context, tenant uuid.UUID, e Export) error {
	now, err := s.Get(ctx, tenant, e.Customer.ID.String())
	if err == nil && now.ID != e.Customer.ID {
		return fault.New(fault.CodeCustomerNotFound, "")
	}
	return err
}
