package policy

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/governance"
)

// Warning says what is odd about a policy that is valid all the same.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// warnings looks at a policy against the tenant as it stands now.
func (s *Service) warnings(ctx context.Context, tenant uuid.UUID, p Policy) ([]Warning, error) {
	return []Warning{}, nil
}

// usersAndRoles splits the approvers of a rule.
func usersAndRoles(r governance.ApprovalRule) (users []uuid.UUID, roles []string) {
	users, roles = []uuid.UUID{}, []string{}
	for _, a := range r.Approvers {
		if a.Type == governance.ApproverRole {
			roles = append(roles, a.Value)
		} else if id, err := uuid.Parse(a.Value); err == nil {
			users = append(users, id)
		}
	}
	return users, roles
}

// unknownUsers finds the approvers that are no users of the tenant: nobody could ever
// give what they shall give.
func (s *Service) unknownUsers(ctx context.Context, tenant uuid.UUID, r governance.ApprovalRule) (mistakes, error) {
	users, _ := usersAndRoles(r)
	if len(users) == 0 {
		return nil, nil
	}
	rows, err := s.q.TenantUsers(ctx, s.db.Tenant(tenant), dbsqlc.TenantUsersParams{TenantID: tenant, Ids: users})
	if err != nil {
		return nil, fmt.Errorf("policy: read users: %w", err)
	}
	known := map[string]bool{}
	for _, row := range rows {
		known[row.ID.String()] = true
	}
	var m mistakes
	for i, a := range r.Approvers {
		if a.Type == governance.ApproverUser && !known[a.Value] {
			m.add(fmt.Sprintf("/approval/approvers/%d/value", i), "unknown", "There is no such user in the tenant.")
		}
	}
	return m, nil
}
