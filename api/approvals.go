package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/approval"
)

// Approvals is what the approval endpoints need.
type Approvals interface {
	Get(ctx context.Context, tenant uuid.UUID, id string) (approval.Detailed, error)
}

type approvalView struct {
	ID          string          `json:"id"`
	ExecutionID string          `json:"execution_id"`
	Status      string          `json:"status"`
	Verb        string          `json:"verb"`
	Provider    string          `json:"provider"`
	Args        json.RawMessage `json:"args"`
	RiskLevel   string          `json:"risk_level"`
	PolicyName  string          `json:"policy_name"`
	Reason      string          `json:"reason"`
	Requester   *uuid.UUID      `json:"requester"`
	CreatedAt   time.Time       `json:"created_at"`
	ExpiresAt   *time.Time      `json:"expires_at"`
}

func (s *Server) getApproval(ctx context.Context, c *call) (reply, error) {
	a, err := s.Approvals.Get(ctx, c.who.TenantID, c.param("id"))
	if err != nil {
		return reply{}, err
	}
	return ok(approvalView{
		ID: a.ID, ExecutionID: a.ExecutionID, Status: string(a.Status), Verb: a.Provider + ":" + a.Verb, Provider: a.Provider,
		Args: a.Args, RiskLevel: a.RiskLevel, PolicyName: policyName(true, a.PolicyName), Reason: a.Reason, Requester: a.Requester,
		CreatedAt: a.CreatedAt, ExpiresAt: utc(a.ExpiresAt),
	}), nil
}
