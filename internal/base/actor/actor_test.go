package actor_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
)

func TestActorIsWrittenWithItsIDWhereItHasOne(t *testing.T) {
	t.Parallel()
	tenant, id := uuid.New(), uuid.New()
	key := actor.Actor{Kind: actor.Key, TenantID: tenant, ID: id}
	user := actor.Actor{Kind: actor.User, TenantID: tenant, ID: id, Role: actor.RoleOwner}
	for want, who := range map[string]actor.Actor{
		"key:" + id.String(): key, "user:" + id.String(): user, "system": actor.SystemOf(tenant), "operator": actor.OperatorAt(uuid.Nil, "command line"),
	} {
		require.Equal(t, want, who.String())
	}
	require.Equal(t, id.String(), key.IDText())
	require.Empty(t, actor.SystemOf(tenant).IDText())
	require.Equal(t, id, *key.KeyID())
	require.Nil(t, key.UserID())
	require.Equal(t, id, *user.UserID())
	require.Nil(t, user.KeyID())
}

func TestCallerIsReadInTheFormThatItIsShownIn(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for _, c := range []*actor.Caller{actor.CallerOf(&id, nil), actor.CallerOf(nil, &id)} {
		read, is := actor.ParseCaller(c.String())
		require.True(t, is)
		require.Equal(t, *c, read)
	}
	require.Nil(t, actor.CallerOf(nil, nil))
	for _, text := range []string{"", "key", "key:", id.String(), "map:" + id.String(), "Key:" + id.String(), "key:{" + id.String() + "}", "key:" + id.String() + ":1"} {
		_, is := actor.ParseCaller(text)
		require.False(t, is, text)
	}
}

// Rows and audit records store these texts.
func TestKindsAndRolesStayTheSame(t *testing.T) {
	t.Parallel()
	require.Equal(t, []actor.Kind{"key", "user", "agent", "map", "workflow", "system", "operator"},
		[]actor.Kind{actor.Key, actor.User, actor.Agent, actor.Map, actor.Workflow, actor.System, actor.Operator})
	require.Equal(t, []actor.Role{"owner", "admin", "approver", "member"}, actor.Roles())
	require.True(t, actor.RoleMember.Valid())
	require.False(t, actor.Role("Owner").Valid())
	require.False(t, actor.Role("").Valid())
}

func TestNetworkIsWhatOneSubscriberHas(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff:1%eth0": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "": "", "command line": "command line",
	} {
		require.Equal(t, want, actor.Actor{SourceAddr: address}.Network(), address)
	}
}
