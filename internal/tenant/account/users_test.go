package account

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Who may do what to whom. A role that manages nobody is refused at the route too.
func TestWhoManagesWhom(t *testing.T) {
	t.Parallel()
	const denied = fault.CodeInsufficientPermissions
	manages := map[actor.Role]map[actor.Role]fault.Code{
		actor.RoleOwner:    {actor.RoleOwner: "", actor.RoleAdmin: "", actor.RoleApprover: "", actor.RoleMember: ""},
		actor.RoleAdmin:    {actor.RoleOwner: denied, actor.RoleAdmin: denied, actor.RoleApprover: "", actor.RoleMember: ""},
		actor.RoleApprover: {actor.RoleOwner: denied, actor.RoleAdmin: denied, actor.RoleApprover: denied, actor.RoleMember: denied},
		actor.RoleMember:   {actor.RoleOwner: denied, actor.RoleAdmin: denied, actor.RoleApprover: denied, actor.RoleMember: denied},
	}
	code := func(err error) fault.Code {
		if f := fault.As(err); f != nil {
			return f.Code
		}
		require.NoError(t, err)
		return ""
	}
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	for role, targets := range manages {
		by := h.add(t, owner, "by-"+string(role)+"@example.com", string(role))
		for target, want := range targets {
			where := string(role) + " to " + string(target)
			address := string(role) + "-" + string(target) + "@example.com"
			_, err := h.Invite(t.Context(), as(by), InviteInput{Email: "by-" + address, Role: string(target)})
			require.Equal(t, want, code(err), "invite: %s", where)

			waiting := h.invite(t, owner, "waits-"+address, string(target))
			_, err = h.InviteAgain(t.Context(), as(by), waiting.ID.String())
			require.Equal(t, want, code(err), "invite again: %s", where)

			subject := h.add(t, owner, address, "member")
			require.Equal(t, want, code(h.setRole(t.Context(), by, subject.UserID, string(target))), "to role: %s", where)
			require.NoError(t, h.setRole(t.Context(), owner, subject.UserID, string(target)))
			name := "New name"
			_, err = h.ChangeUser(t.Context(), as(by), subject.UserID.String(), UserChange{Name: &name})
			require.Equal(t, want, code(err), "rename: %s", where)
			require.Equal(t, want, code(h.remove(t.Context(), by, subject.UserID)), "remove: %s", where)
		}
	}
}

func TestOneGivesUpARoleOfOnesOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	admin := h.add(t, owner, "bob@example.com", "admin")
	requireCode(t, fault.CodeInsufficientPermissions, h.setRole(t.Context(), admin, admin.UserID, "owner"))
	require.NoError(t, h.setRole(t.Context(), admin, admin.UserID, "admin"), "nothing to change")
	require.NoError(t, h.setRole(t.Context(), admin, admin.UserID, "approver"))
	requireCode(t, fault.CodeInsufficientPermissions, h.setRole(t.Context(), admin, admin.UserID, "admin"))
	leaving := h.add(t, owner, "carl@example.com", "admin")
	require.NoError(t, h.remove(t.Context(), leaving, leaving.UserID))
}

func TestARoleCountsFromTheNextCallOn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	member := h.add(t, owner, "bob@example.com", "member")
	for _, role := range []string{"approver", "ADMIN", "member"} {
		require.NoError(t, h.setRole(t.Context(), owner, member.UserID, role))
		who, err := h.authenticate(t, member.Token)
		require.NoError(t, err)
		require.Equal(t, actor.Role(strings.ToLower(role)), who.Role)
	}
}

func TestTheLastOwnerStays(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	h.invite(t, owner, "waits@example.com", "owner") // is none yet
	requireCode(t, fault.CodeConflict, h.setRole(t.Context(), owner, owner.UserID, "admin"))
	requireCode(t, fault.CodeConflict, h.remove(t.Context(), owner, owner.UserID))
	name := "Ada"
	_, err := h.ChangeUser(t.Context(), as(owner), owner.UserID.String(), UserChange{Name: &name})
	require.NoError(t, err)

	second := h.add(t, owner, "bob@example.com", "owner")
	require.NoError(t, h.setRole(t.Context(), second, owner.UserID, "member"))
	requireCode(t, fault.CodeInsufficientPermissions, h.setRole(t.Context(), owner, second.UserID, "member"))
	requireCode(t, fault.CodeConflict, h.remove(t.Context(), second, second.UserID))
	require.NoError(t, h.remove(t.Context(), second, owner.UserID))
}

func TestOwnersWhoUnseatEachOtherAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	demote := func(who Login, id uuid.UUID) error { return h.setRole(t.Context(), who, id, "member") }
	remove := func(who Login, id uuid.UUID) error { return h.remove(t.Context(), who, id) }
	other := func(pair [2]Login, i int) Login { return pair[1-i] }
	self := func(pair [2]Login, i int) Login { return pair[i] }
	for name, tc := range map[string]struct {
		do func(Login, uuid.UUID) error
		to func([2]Login, int) Login
	}{
		"each demotes the other": {demote, other}, "each steps down": {demote, self},
		"each removes the other": {remove, other}, "each leaves": {remove, self},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				address := uuid.NewString() + "@example.com"
				first := h.join(t, "a-"+address)
				pair := [2]Login{first, h.add(t, first, "b-"+address, "owner")}
				var errs [2]error
				start := make(chan struct{})
				var wg sync.WaitGroup
				for i := range pair {
					wg.Go(func() {
						<-start
						errs[i] = tc.do(pair[i], tc.to(pair, i).UserID)
					})
				}
				close(start)
				wg.Wait()
				require.NotEqual(t, errs[0] == nil, errs[1] == nil, "one of the two: %v", errs)
				require.Equal(t, int64(1), one[int64](t, h,
					"select count(*) from users where tenant_id = $1 and role = 'owner' and joined_at is not null and removed_at is null", first.TenantID))
			}
		})
	}
}

func TestRemovedUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	bob := h.add(t, owner, "bob@example.com", "admin")
	key, err := h.CreateKey(t.Context(), as(bob), KeyInput{Name: "his"})
	require.NoError(t, err)
	require.NoError(t, h.remove(t.Context(), owner, bob.UserID))

	_, err = h.authenticate(t, bob.Token)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.Refresh(t.Context(), from(home), bob.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.logIn(t, "bob@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)
	require.True(t, one[bool](t, h, "select bool_and(revoked_at is not null) from sessions where user_id = $1", bob.UserID))
	requireCode(t, fault.CodeUserNotFound, h.remove(t.Context(), owner, bob.UserID))
	requireCode(t, fault.CodeUserNotFound, h.setRole(t.Context(), owner, bob.UserID, "member"))
	_, err = h.Invite(t.Context(), as(bob), InviteInput{Email: "x@example.com", Role: "member"})
	requireCode(t, fault.CodeInsufficientPermissions, err)

	was, err := h.User(t.Context(), owner.TenantID, bob.UserID.String())
	require.NoError(t, err)
	require.Equal(t, UserRemoved, was.Status)
	require.Equal(t, h.clock(), *was.RemovedAt)
	keys, err := h.ListKeys(t.Context(), owner.TenantID, "")
	require.NoError(t, err)
	require.Equal(t, key.ID, keys[0].ID, "the tenant's keys stay")

	back := h.add(t, owner, "bob@example.com", "member")
	require.NotEqual(t, bob.UserID, back.UserID)
	require.NoError(t, h.remove(t.Context(), owner, back.UserID))
	require.NotEqual(t, owner.TenantID, h.join(t, "bob@example.com").TenantID)
}

func TestSessionsOfRemovedUsersAreDeadWhateverTheySay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	bob := h.add(t, owner, "bob@example.com", "member")
	require.NoError(t, h.remove(t.Context(), owner, bob.UserID))
	session := one[uuid.UUID](t, h, "UPDATE sessions SET revoked_at = NULL WHERE user_id = $1 RETURNING id", bob.UserID)
	require.Equal(t, h.sessionOf(t, bob), session)
	_, err := h.authenticate(t, bob.Token)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.Refresh(t.Context(), from(home), bob.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
}

func TestUserPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	gone := h.add(t, owner, "gone@example.com", "member")
	require.NoError(t, h.remove(t.Context(), owner, gone.UserID))
	h.add(t, owner, "bob@example.com", "admin")
	h.invite(t, owner, "waits@example.com", "member")
	for status, want := range map[string][]string{
		"":        {"waits@example.com", "bob@example.com", "ada@example.com"},
		"ALL":     {"waits@example.com", "bob@example.com", "gone@example.com", "ada@example.com"},
		"active":  {"bob@example.com", "ada@example.com"},
		"invited": {"waits@example.com"},
		"removed": {"gone@example.com"},
	} {
		got := []string{}
		f := UserFilter{Status: status, Limit: 1}
		for more := true; more; {
			var page []User
			var err error
			page, more, err = h.ListUsers(t.Context(), owner.TenantID, f)
			require.NoError(t, err)
			require.Len(t, page, 1)
			got = append(got, page[0].Email)
			f.Before = &page[0].ID
		}
		require.Equal(t, want, got, status)
	}
	_, _, err := h.ListUsers(t.Context(), owner.TenantID, UserFilter{Status: "asleep", Limit: 1})
	requireCode(t, fault.CodeValidation, err)
}

func TestForeignUserIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	waits := h.invite(t, other, "waits@example.com", "member")
	before := one[string](t, h, "select jsonb_agg(to_jsonb(u) order by id)::text from users u")
	for _, id := range []string{other.UserID.String(), waits.ID.String(), uuid.NewString(), "x", "", "{" + me.UserID.String() + "}"} {
		_, err := h.User(t.Context(), me.TenantID, id)
		requireCode(t, fault.CodeUserNotFound, err)
		_, err = h.ChangeUser(t.Context(), as(me), id, UserChange{Name: &me.Email})
		requireCode(t, fault.CodeUserNotFound, err)
		_, err = h.InviteAgain(t.Context(), as(me), id)
		requireCode(t, fault.CodeUserNotFound, err)
		requireCode(t, fault.CodeUserNotFound, h.RemoveUser(t.Context(), as(me), id, nil))
	}
	users, _, err := h.ListUsers(t.Context(), me.TenantID, UserFilter{Status: "all", Limit: 100})
	require.NoError(t, err)
	require.Len(t, users, 1)
	require.Equal(t, before, one[string](t, h, "select jsonb_agg(to_jsonb(u) order by id)::text from users u"))

	// Nor does another tenant's user act in mine.
	_, err = h.Invite(t.Context(), asUser(actor.Actor{}, me.TenantID, other.UserID), InviteInput{Email: "x@example.com", Role: "member"})
	requireCode(t, fault.CodeInsufficientPermissions, err)
}
