package account

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/tenant/auth"
)

// invite invites on behalf of who.
func (h *house) invite(t *testing.T, who Login, email, role string) Invited {
	t.Helper()
	in, err := h.Invite(t.Context(), as(who), InviteInput{Email: email, Role: role})
	require.NoError(t, err)
	return in
}

func (h *house) accept(t *testing.T, token string) (Login, error) {
	t.Helper()
	return h.AcceptInvitation(t.Context(), from(home), AcceptInput{Token: token, Password: password})
}

// add is an active user more in the tenant of who.
func (h *house) add(t *testing.T, who Login, email, role string) Login {
	t.Helper()
	login, err := h.accept(t, h.invite(t, who, email, role).Token)
	require.NoError(t, err)
	return login
}

func (h *house) setRole(ctx context.Context, who Login, id uuid.UUID, role string) error {
	_, err := h.ChangeUser(ctx, as(who), id.String(), UserChange{Role: &role})
	return err
}

func (h *house) remove(ctx context.Context, who Login, id uuid.UUID) error {
	return h.RemoveUser(ctx, as(who), id.String())
}

// authenticate is what the API asks at every call.
func (h *house) authenticate(t *testing.T, token string) (auth.Principal, error) {
	t.Helper()
	secrets, err := auth.NewSecrets(bytes.Repeat([]byte{1}, 32))
	require.NoError(t, err)
	a, err := auth.NewAuthenticator(auth.Deps{DB: h.db.Pool, Secrets: secrets, Tokens: h.tokens, Now: h.clock})
	require.NoError(t, err)
	return a.Token(t.Context(), token)
}

func TestInvitedPersonJoins(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	in, err := h.Invite(t.Context(), as(owner), InviteInput{Email: "Bob@Example.com", Name: "Bob", Role: "Approver"})
	require.NoError(t, err)
	require.Equal(t, "bob@example.com", in.Email)
	require.Equal(t, UserInvited, in.Status)
	require.Equal(t, h.clock().Add(7*24*time.Hour), *in.InvitationExpiresAt)
	stored, err := h.User(t.Context(), owner.TenantID, in.ID.String())
	require.NoError(t, err)
	require.Equal(t, in.User, stored, "read as invited")
	_, err = h.logIn(t, "bob@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)

	h.pass(time.Hour)
	login, err := h.accept(t, in.Token)
	require.NoError(t, err)
	require.Equal(t, owner.TenantID, login.TenantID)
	require.Equal(t, in.ID, login.UserID)
	require.Equal(t, "bob@example.com", login.Email)
	who, err := h.authenticate(t, login.Token)
	require.NoError(t, err)
	require.Equal(t, actor.RoleApprover, who.Role)
	_, err = h.Refresh(t.Context(), from(home), login.RefreshToken)
	require.NoError(t, err)
	_, err = h.logIn(t, "bob@example.com", password)
	require.NoError(t, err)
	joined, err := h.User(t.Context(), owner.TenantID, in.ID.String())
	require.NoError(t, err)
	require.Equal(t, UserActive, joined.Status)
	require.Equal(t, "Bob", joined.Name, "the inviter's name stays")
	require.Equal(t, h.clock(), *joined.JoinedAt)
	require.Nil(t, joined.InvitationExpiresAt)

	_, err = h.accept(t, in.Token)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.InviteAgain(t.Context(), as(owner), in.ID.String())
	requireCode(t, fault.CodeConflict, err)
	_, err = h.Invite(t.Context(), as(owner), InviteInput{Email: "bob@example.com", Role: "member"})
	requireCode(t, fault.CodeConflict, err)
}

func TestInvitationsEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	first := h.invite(t, owner, "bob@example.com", "member")
	again, err := h.InviteAgain(t.Context(), as(owner), first.ID.String())
	require.NoError(t, err)
	require.NotEqual(t, first.Token, again.Token)
	_, err = h.accept(t, first.Token)
	requireCode(t, fault.CodeInvalidToken, err)

	h.pass(7 * 24 * time.Hour)
	_, err = h.accept(t, again.Token)
	requireCode(t, fault.CodeTokenExpired, err)
	again, err = h.InviteAgain(t.Context(), as(owner), first.ID.String())
	require.NoError(t, err)
	h.pass(7*24*time.Hour - time.Second)
	require.NoError(t, h.remove(t.Context(), owner, first.ID))
	_, err = h.accept(t, again.Token)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.InviteAgain(t.Context(), as(owner), first.ID.String())
	requireCode(t, fault.CodeUserNotFound, err)
}

func TestInvitationRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	for name, in := range map[string]InviteInput{
		"no address":   {Role: "member"},
		"bad address":  {Email: "x", Role: "member"},
		"no role":      {Email: "a@example.com"},
		"unknown role": {Email: "a@example.com", Role: "root"},
		"long name":    {Email: "a@example.com", Role: "member", Name: strings.Repeat("a", 256)},
	} {
		_, err := h.Invite(t.Context(), as(owner), in)
		require.Equal(t, fault.CodeValidation, fault.As(err).Code, name)
	}
	token := h.invite(t, owner, "bob@example.com", "member").Token
	h.work.work()
	for name, tc := range map[string]struct {
		in   AcceptInput
		want fault.Code
	}{
		"no token":      {AcceptInput{Password: password}, fault.CodeValidation},
		"no password":   {AcceptInput{Token: token}, fault.CodeWeakPassword},
		"weak password": {AcceptInput{Token: token, Password: "1234567"}, fault.CodeWeakPassword},
		"long name":     {AcceptInput{Token: token, Password: password, Name: strings.Repeat("a", 256)}, fault.CodeValidation},
		"no such token": {AcceptInput{Token: "ari_x", Password: password}, fault.CodeInvalidToken},
		"cut token":     {AcceptInput{Token: token[:len(token)-1], Password: password}, fault.CodeInvalidToken},
		"refresh token": {AcceptInput{Token: owner.RefreshToken, Password: password}, fault.CodeInvalidToken},
	} {
		_, err := h.AcceptInvitation(t.Context(), from(home), tc.in)
		require.Equal(t, tc.want, fault.As(err).Code, name)
	}
	require.Equal(t, [2]int64{}, h.work.work(), "nothing is hashed for them")
}

func TestAcceptanceIsThrottled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token := h.invite(t, h.join(t, "ada@example.com"), "bob@example.com", "member").Token
	for range 10 {
		_, err := h.accept(t, "ari_x")
		requireCode(t, fault.CodeInvalidToken, err)
	}
	_, err := h.accept(t, token)
	requireCode(t, fault.CodeLoginThrottled, err)
	require.Equal(t, 15*time.Minute, fault.As(err).RetryAfter)
	_, err = h.AcceptInvitation(t.Context(), from(netip.MustParseAddr("192.0.2.2")), AcceptInput{Token: token, Password: password})
	require.NoError(t, err, "others are not held up")
}

// Whether an address is in use elsewhere is not to be learnt by inviting it.
func TestAddressInUseElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	known, unknown := h.invite(t, owner, "bob@example.com", "member"), h.invite(t, owner, "nobody@example.com", "member")
	known.ID, known.Email, known.Token = unknown.ID, unknown.Email, unknown.Token
	require.Equal(t, unknown, known, "the same answer")

	again, err := h.InviteAgain(t.Context(), as(owner), h.find(t, owner, "bob@example.com").ID.String())
	require.NoError(t, err)
	_, err = h.accept(t, again.Token)
	requireCode(t, fault.CodeConflict, err)
	require.Equal(t, int64(1), one[int64](t, h, "select failures::bigint from login_attempts"), "it counts")
	back, err := h.logIn(t, "bob@example.com", password)
	require.NoError(t, err)
	require.Equal(t, other.TenantID, back.TenantID)

	second := h.add(t, other, "carl@example.com", "owner")
	require.NoError(t, h.remove(t.Context(), second, other.UserID))
	_, err = h.accept(t, again.Token)
	require.NoError(t, err, "the address is free now")
}

// find returns the tenant's user of an address.
func (h *house) find(t *testing.T, who Login, email string) User {
	t.Helper()
	users, _, err := h.ListUsers(t.Context(), who.TenantID, UserFilter{Limit: 100})
	require.NoError(t, err)
	for _, u := range users {
		if u.Email == email {
			return u
		}
	}
	require.Fail(t, "no user of this address")
	return User{}
}

func TestAnInvitationKeepsNobodyFromSigningUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	in := h.invite(t, owner, "bob@example.com", "member")
	h.work.work()
	own := h.join(t, "bob@example.com")
	require.NotEqual(t, owner.TenantID, own.TenantID)
	_, err := h.accept(t, in.Token)
	requireCode(t, fault.CodeConflict, err)
	again, err := h.logIn(t, "bob@example.com", password)
	require.NoError(t, err)
	require.Equal(t, own.TenantID, again.TenantID)
}

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

// A session that begins while its user is being removed is as dead as the others.
func TestSessionsOfRemovedUsersAreDeadWhateverTheySay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	bob := h.add(t, owner, "bob@example.com", "member")
	require.NoError(t, h.remove(t.Context(), owner, bob.UserID))
	late, err := h.startSession(t.Context(), as(bob), bob.Email, make([]byte, 32))
	require.NoError(t, err)
	_, err = h.authenticate(t, late.Token)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.Refresh(t.Context(), from(home), late.RefreshToken)
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
		requireCode(t, fault.CodeUserNotFound, h.RemoveUser(t.Context(), as(me), id))
	}
	users, _, err := h.ListUsers(t.Context(), me.TenantID, UserFilter{Status: "all", Limit: 100})
	require.NoError(t, err)
	require.Len(t, users, 1)
	require.Equal(t, before, one[string](t, h, "select jsonb_agg(to_jsonb(u) order by id)::text from users u"))

	// Nor does another tenant's user act in mine.
	_, err = h.Invite(t.Context(), asUser(actor.Actor{}, me.TenantID, other.UserID), InviteInput{Email: "x@example.com", Role: "member"})
	requireCode(t, fault.CodeInsufficientPermissions, err)
}
