package account

import (
	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/audit"
)

// asUser returns the caller as the user who they have just shown to be.
func asUser(who actor.Actor, tenant, user uuid.UUID) actor.Actor {
	who.Kind, who.TenantID, who.ID = actor.User, tenant, user
	return who
}

// aboutUser starts the record of what who does to a user.
func aboutUser(who actor.Actor, action audit.Action, user uuid.UUID) audit.Record {
	return audit.Change(who, action, audit.SubjectUser, user.String())
}
