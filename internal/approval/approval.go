// Package approval reads the records of calls that governance blocked or held.
// The run domain writes them in the transaction that decides.
package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/fault"
)

// Approval is one record.
type Approval struct {
	ID          string
	ExecutionID string
	Status      string // blocked, or pending
	Provider    string
	Verb        string
	Args        json.RawMessage // masked
	RiskLevel   string
	PolicyName  string
	Reason      string
	Requester   *uuid.UUID // the API key that called
	CreatedAt   time.Time
	ExpiresAt   *time.Time
}

// Service reads approvals.
type Service struct{ db *db.Pool }

// New returns the service over a pool, which must not be nil.
func New(pool *db.Pool) (*Service, error) {
	if pool == nil {
		return nil, errors.New("approval: database is required")
	}
	return &Service{db: pool}, nil
}

// Get returns the tenant's approval; APPROVAL_NOT_FOUND for any other id.
func (s *Service) Get(ctx context.Context, tenant uuid.UUID, id string) (Approval, error) {
	row, err := dbsqlc.New().GetApproval(ctx, s.db.Tenant(tenant), dbsqlc.GetApprovalParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Approval{}, fault.New(fault.CodeApprovalNotFound, "")
	case err != nil:
		return Approval{}, fmt.Errorf("approval: get: %w", err)
	}
	return Approval{
		ID: row.ID, ExecutionID: row.ExecutionID, Status: row.Status, Provider: row.Provider, Verb: row.Verb,
		Args: json.RawMessage(row.Args), RiskLevel: row.RiskLevel, PolicyName: row.PolicyName, Reason: row.Reason,
		Requester: row.Requester, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt,
	}, nil
}
