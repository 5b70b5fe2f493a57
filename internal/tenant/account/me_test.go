package account

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// sessionOf returns the session of a login's token.
func (h *house) sessionOf(t *testing.T, l Login) uuid.UUID {
	t.Helper()
	claims, err := h.tokens.Verify(l.Token)
	require.NoError(t, err)
	return claims.SessionID
}

// alive reports whether the login's token and refresh token still work.
func (h *house) alive(t *testing.T, l Login) bool {
	t.Helper()
	_, err := h.authenticate(t, l.Token)
	_, refreshErr := h.Refresh(t.Context(), from(home), l.RefreshToken)
	require.Equal(t, err == nil, refreshErr == nil)
	return err == nil
}

func (h *house) again(t *testing.T, email string) Login {
	t.Helper()
	l, err := h.logIn(t, email, password)
	require.NoError(t, err)
	return l
}

func TestMeNamesUserAndKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	session := h.sessionOf(t, me)
	got, err := h.Me(t.Context(), as(me), session)
	require.NoError(t, err)
	require.Equal(t, me.TenantID, got.TenantID)
	require.NotEmpty(t, got.TenantName)
	require.Equal(t, "ada@example.com", got.User.Email)
	require.Equal(t, actor.RoleOwner, got.User.Role)
	require.Equal(t, session, got.Session.ID)
	require.Nil(t, got.Key)

	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
	require.NoError(t, err)
	got, err = h.Me(t.Context(), actor.Actor{Kind: actor.Key, TenantID: me.TenantID, ID: key.ID}, uuid.Nil)
	require.NoError(t, err)
	key.Secret = ""
	require.Equal(t, Identity{TenantID: me.TenantID, Key: &key}, got)
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first := h.join(t, "ada@example.com")
	began := h.clock()
	other := h.join(t, "bob@example.com")
	h.pass(time.Minute)
	second, third := h.again(t, "ada@example.com"), h.again(t, "ada@example.com")
	h.pass(time.Minute)
	refreshed, err := h.Refresh(t.Context(), from(home), first.RefreshToken)
	require.NoError(t, err)
	list := func() (ids []uuid.UUID) {
		all, err := h.Sessions(t.Context(), as(first))
		require.NoError(t, err)
		for _, s := range all {
			ids = append(ids, s.ID)
		}
		return ids
	}
	ids := []uuid.UUID{h.sessionOf(t, third), h.sessionOf(t, second), h.sessionOf(t, first)}
	require.Equal(t, ids, list())
	all, err := h.Sessions(t.Context(), as(first))
	require.NoError(t, err)
	require.Equal(t, began, all[2].CreatedAt)
	require.Equal(t, began.Add(2*time.Minute), all[2].RefreshedAt)
	require.Equal(t, all[0].CreatedAt, all[0].RefreshedAt)

	requireCode(t, fault.CodeSessionNotFound, h.EndSession(t.Context(), as(first), h.sessionOf(t, other)))
	requireCode(t, fault.CodeSessionNotFound, h.EndSession(t.Context(), as(first), uuid.Nil))
	require.NoError(t, h.EndSession(t.Context(), as(first), ids[1]))
	requireCode(t, fault.CodeSessionNotFound, h.EndSession(t.Context(), as(first), ids[1]))
	require.Equal(t, []uuid.UUID{ids[0], ids[2]}, list())
	require.False(t, h.alive(t, second))

	require.NoError(t, h.EndOtherSessions(t.Context(), as(first), ids[2]))
	require.Equal(t, []uuid.UUID{ids[2]}, list())
	require.False(t, h.alive(t, third))
	require.True(t, h.alive(t, refreshed))
	require.True(t, h.alive(t, other))
	require.NoError(t, h.EndOtherSessions(t.Context(), as(first), ids[2]), "there are none")
}

func TestPasswordChangeEndsOtherSessions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	here := h.join(t, "ada@example.com")
	there := h.again(t, "ada@example.com")
	const next = "another horse"
	require.NoError(t, h.ChangePassword(t.Context(), as(here), h.sessionOf(t, here), NewPassword{Current: password, New: next}))
	require.False(t, h.alive(t, there))
	require.True(t, h.alive(t, here))
	_, err := h.logIn(t, "ada@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)
	_, err = h.logIn(t, "ada@example.com", next)
	require.NoError(t, err)
}

// meanwhile compares passwords, and does something else before it says what it found, once.
type meanwhile struct {
	*counted
	do func()
}

func (m *meanwhile) matches(password, stored string) (bool, error) {
	ok, err := m.counted.matches(password, stored)
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return ok, err
}

// A login takes a while to compare the password. The change ends the session of one that began
// before it, too.
func TestPasswordChangeRefusesALoginUnderWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	h.passwords = &meanwhile{h.work, func() {
		require.NoError(t, h.ChangePassword(t.Context(), as(me), h.sessionOf(t, me), NewPassword{Current: password, New: "another horse"}))
	}}
	_, err := h.logIn(t, "ada@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)
	all, err := h.Sessions(t.Context(), as(me))
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestPasswordChangeRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	change := func(current, next string) error {
		return h.ChangePassword(t.Context(), as(me), h.sessionOf(t, me), NewPassword{Current: current, New: next})
	}
	requireCode(t, fault.CodeInvalidCredentials, change("wrong horse", "another horse"))
	requireCode(t, fault.CodeWeakPassword, change(password, "short"))
	requireCode(t, fault.CodeValidation, change("", "another horse"))
	requireCode(t, fault.CodeValidation, change(password, string(make([]byte, 1025))))
	require.True(t, h.alive(t, me))
}

// A wrong current password counts like a failed login: it slows down where the user has logged
// in before, and is refused elsewhere.
func TestPasswordChangeIsThrottledLikeALogin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	guess := func(who actor.Actor, times int) (err error) {
		for range times {
			err = h.ChangePassword(t.Context(), who, h.sessionOf(t, me), NewPassword{Current: "wrong horse", New: "another horse"})
		}
		return err
	}
	requireCode(t, fault.CodeInvalidCredentials, guess(as(me), 9))
	require.Zero(t, h.waited())
	requireCode(t, fault.CodeInvalidCredentials, guess(as(me), 2))
	require.NotZero(t, h.waited())
	elsewhere := as(me)
	elsewhere.SourceAddr = "198.51.100.7"
	requireCode(t, fault.CodeLoginThrottled, guess(elsewhere, 11))
	_, err := h.logInFrom(t, elsewhere.SourceAddr, "ada@example.com", password)
	requireCode(t, fault.CodeLoginThrottled, err)
}
