package account

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

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
	require.Equal(t, int64(2), one[int64](t, h, "select sum(failures)::bigint from login_attempts"), "it counts for the token and the tenant")
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
