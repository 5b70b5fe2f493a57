package account

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/record/audit"
)

// What records are about.
const (
	subjectKey  = "api_key"
	subjectUser = "user"
)

// byUser is the record of what a user does to himself while he comes in: the context
// does not know him yet.
func byUser(ctx context.Context, tenant, user uuid.UUID, action string) audit.Record {
	r := audit.Change(ctx, tenant, action, subjectUser, user.String())
	r.ActorType, r.ActorID = audit.ActorUser, user.String()
	return r
}
