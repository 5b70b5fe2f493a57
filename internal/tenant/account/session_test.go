package account

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	login := h.join(t, "ada@example.com")
	next, err := h.Refresh(t.Context(), from(home), login.RefreshToken)
	require.NoError(t, err)
	require.NotEqual(t, login.RefreshToken, next.RefreshToken)
	require.Equal(t, login.Email, next.Email)
	a, err := h.tokens.Verify(login.Token)
	require.NoError(t, err)
	b, err := h.tokens.Verify(next.Token)
	require.NoError(t, err)
	require.Equal(t, a, b, "the same session")

	_, err = h.Refresh(t.Context(), from(home), login.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
	_, err = h.Refresh(t.Context(), from(home), next.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
	require.True(t, one[bool](t, h, "select revoked_at is not null from sessions"), "reuse ends the family")
}

func TestRefreshRace(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	login := h.join(t, "ada@example.com")
	var wg sync.WaitGroup
	won := make(chan Login, 8)
	for range 8 {
		wg.Go(func() {
			if next, err := h.Refresh(t.Context(), from(home), login.RefreshToken); err == nil {
				won <- next
			}
		})
	}
	wg.Wait()
	close(won)
	require.Len(t, won, 1)
	_, err := h.Refresh(t.Context(), from(home), (<-won).RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
}

func TestRefreshRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, err := h.Refresh(t.Context(), from(home), "")
	requireCode(t, fault.CodeValidation, err)
	_, err = h.Refresh(t.Context(), from(home), "x")
	requireCode(t, fault.CodeInvalidToken, err)
	unknown, _ := h.d.Secrets.NewRefreshToken()
	_, err = h.Refresh(t.Context(), from(home), unknown)
	requireCode(t, fault.CodeInvalidToken, err)

	login := h.join(t, "ada@example.com")
	claims, err := h.tokens.Verify(login.Token)
	require.NoError(t, err)
	require.NoError(t, h.LogOut(t.Context(), as(login), claims.SessionID))
	require.NoError(t, h.LogOut(t.Context(), as(login), claims.SessionID))
	_, err = h.Refresh(t.Context(), from(home), login.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
}

func TestRefreshLifetimes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	idle := h.join(t, "ada@example.com")
	h.pass(30*24*time.Hour - time.Second)
	busy, err := h.Refresh(t.Context(), from(home), idle.RefreshToken)
	require.NoError(t, err)
	h.pass(30 * 24 * time.Hour)
	_, err = h.Refresh(t.Context(), from(home), busy.RefreshToken)
	requireCode(t, fault.CodeTokenExpired, err)

	login, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	for range 3 {
		h.pass(29 * 24 * time.Hour)
		login, err = h.Refresh(t.Context(), from(home), login.RefreshToken)
		require.NoError(t, err)
	}
	h.pass(3 * 24 * time.Hour) // 90 days since the login
	_, err = h.Refresh(t.Context(), from(home), login.RefreshToken)
	requireCode(t, fault.CodeTokenExpired, err)

	_, err = h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from sessions"), "ended sessions go")
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from refresh_tokens"))
}
