package audit_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/audit"
)

// A kind that the table does not take would undo the change that it records.
func TestEveryKindOfActorCanBeRecorded(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	kinds := []actor.Kind{actor.Key, actor.User, actor.Agent, actor.Map, actor.Workflow, actor.System, actor.Operator}
	for _, kind := range kinds {
		who := actor.Actor{Kind: kind, TenantID: tenant, ID: uuid.New()}
		require.NoError(t, audit.Append(t.Context(), a.db.Tenant(tenant), audit.Change(who, audit.PolicyCreated, audit.SubjectPolicy, "p")), kind)
	}
	a.sealDue(t, tenant)
	a.valid(t, tenant, int64(len(kinds)))
}
