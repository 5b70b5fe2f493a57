package account

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/record/audit"
)

// byUser is the record of what a user does to himself while he comes in: the context
// does not know him yet.
func byUser(ctx context.Context, tenant, user uuid.UUID, action audit.Action) audit.Record {
	r := audit.Change(ctx, tenant, action, audit.SubjectUser, user.String())
	r.ActorType, r.ActorID = actor.User, user.String()
	return r
}
