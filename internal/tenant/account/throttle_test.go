package account

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
)

const wrong = "wrong horse"

// attack fails to log in, once from each of n addresses.
func (h *house) attack(t *testing.T, email string, n int) {
	t.Helper()
	for i := range n {
		_, err := h.logInFrom(t, fmt.Sprintf("203.0.113.%d", i), email, wrong)
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	h.waited()
}

func TestLoginThrottleIsPerAccountAndAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	for _, email := range []string{"ada@example.com", "nobody@example.com"} {
		for range 10 {
			_, err := h.logInFrom(t, "203.0.113.9", email, wrong)
			requireCode(t, fault.CodeInvalidCredentials, err)
			h.pass(time.Minute)
		}
		h.work.work()
		_, err := h.logInFrom(t, "203.0.113.9", email, password)
		requireCode(t, fault.CodeLoginThrottled, err)
		require.Equal(t, 5*time.Minute, fault.As(err).RetryAfter, "from the first failure on")
		require.Equal(t, [2]int64{}, h.work.work(), "no hashing for the throttled")
	}
	_, err := h.logInFrom(t, "198.51.100.7", "ada@example.com", password)
	require.NoError(t, err, "the owner, from anywhere else")
	h.pass(5 * time.Minute)
	_, err = h.logInFrom(t, "203.0.113.9", "ada@example.com", password)
	require.NoError(t, err, "the window has ended")
}

func TestLoginSuccessForgetsThePairOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	_, err := h.logIn(t, "ada@example.com", wrong)
	requireCode(t, fault.CodeInvalidCredentials, err)
	_, err = h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Equal(t, int64(2), one[int64](t, h, "select count(*) from login_attempts"), "of the source and of the account")
}

func TestLoginIPv6NetworkIsOneAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	for i := range 10 {
		_, err := h.logInFrom(t, fmt.Sprintf("2001:db8::%x", i), "ada@example.com", wrong)
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	_, err := h.logInFrom(t, "2001:db8::ffff", "ada@example.com", password)
	requireCode(t, fault.CodeLoginThrottled, err)
	_, err = h.logInFrom(t, "2001:db8:0:1::1", "ada@example.com", password)
	require.NoError(t, err)
}

func TestLoginFromAKnownAddressIsNeverRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.join(t, "ada@example.com")
	h.cfg.Throttle.SourceFailures = 30
	for range 40 {
		_, err := h.logIn(t, "ada@example.com", wrong)
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	_, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Equal(t, delayMost, h.waited(), "as slow as it gets")
	_, err = h.logIn(t, "bob@example.com", password)
	requireCode(t, fault.CodeLoginThrottled, err)
}

func TestLoginUnderAttackIsSlowFromNewAddressesOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.join(t, "ada@example.com")
	for _, email := range []string{"ada@example.com", "nobody@example.com"} {
		h.attack(t, email, 23)
		_, err := h.logInFrom(t, "198.51.100.7", email, wrong)
		requireCode(t, fault.CodeInvalidCredentials, err)
		require.Equal(t, 3*delayStep, h.waited(), "the same for an address that nobody has")
	}
	_, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Zero(t, h.waited(), "the owner at home notices nothing")

	h.attack(t, "ada@example.com", 200)
	_, err = h.logInFrom(t, "198.51.100.8", "ada@example.com", password)
	require.NoError(t, err, "the owner on a journey")
	require.Equal(t, delayMost, h.waited(), "bounded")
	_, err = h.logInFrom(t, "198.51.100.8", "ada@example.com", password)
	require.NoError(t, err)
	require.Zero(t, h.waited(), "the address is known now")
}

func TestLoginThrottleIsPerAddressAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.cfg.Throttle.SourceFailures = 30
	h.signUp(t, "ada@example.com", password)
	for i := range 30 {
		_, err := h.logInFrom(t, "203.0.113.9", fmt.Sprintf("user%d@example.com", i), wrong)
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	_, err := h.logInFrom(t, "203.0.113.9", "ada@example.com", password)
	requireCode(t, fault.CodeLoginThrottled, err)
	require.Equal(t, 15*time.Minute, fault.As(err).RetryAfter)
	_, err = h.logInFrom(t, "203.0.113.10", "ada@example.com", password)
	require.NoError(t, err)
}

func TestKnownAddressesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	login := h.join(t, "ada@example.com")
	for i := range knownMost + 5 {
		h.pass(time.Minute)
		_, err := h.logInFrom(t, fmt.Sprintf("198.51.100.%d", i), "ada@example.com", password)
		require.NoError(t, err)
	}
	require.Equal(t, int64(knownMost), one[int64](t, h, "select count(*) from login_addresses where user_id = $1", login.UserID))
	h.attack(t, "ada@example.com", 21)
	_, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Equal(t, delayStep, h.waited(), "the oldest was forgotten")

	h.pass(knownFor)
	h.attack(t, "ada@example.com", 21)
	_, err = h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Equal(t, delayStep, h.waited(), "so is one that was not used for long")
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from login_addresses"))
}

func TestBadInvitationTokensRefuseOnlyBadOnes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.cfg.Throttle.SourceFailures = 30
	token := h.invite(t, h.join(t, "ada@example.com"), "bob@example.com", "member").Token
	for i := range 30 {
		_, err := h.accept(t, fmt.Sprintf("ari_%d", i))
		requireCode(t, fault.CodeInvalidToken, err)
	}
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from login_attempts"), "no row for each token")
	_, err := h.accept(t, "ari_x")
	requireCode(t, fault.CodeLoginThrottled, err)
	require.Equal(t, 15*time.Minute, fault.As(err).RetryAfter)
	_, err = h.accept(t, token)
	require.NoError(t, err, "from the same address")
}

func TestInvitationsTellOfFewAddressesInUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.join(t, "ada@example.com")
	var tokens []string
	for i := range 11 {
		email := fmt.Sprintf("user%d@example.com", i)
		h.signUp(t, email, password)
		tokens = append(tokens, h.invite(t, owner, email, "member").Token)
	}
	for range 10 {
		_, err := h.accept(t, tokens[0])
		requireCode(t, fault.CodeConflict, err)
	}
	_, err := h.accept(t, tokens[0])
	requireCode(t, fault.CodeLoginThrottled, err)
	for _, token := range tokens[1:10] {
		_, err := h.accept(t, token)
		requireCode(t, fault.CodeConflict, err)
	}
	_, err = h.accept(t, tokens[10])
	requireCode(t, fault.CodeLoginThrottled, err)
	_, err = h.accept(t, h.invite(t, owner, "free@example.com", "member").Token)
	requireCode(t, fault.CodeLoginThrottled, err)
	other := h.join(t, "carl@example.com")
	_, err = h.accept(t, h.invite(t, other, "free@example.com", "member").Token)
	require.NoError(t, err, "other tenants' invitations")
}

func TestDelaysAreBoundedInNumber(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	d := newDelays(func(context.Context, time.Duration) error { <-blocked; return turns.ErrBusy })
	ended := make(chan error)
	for range delayedEach {
		go func() { ended <- d.wait(t.Context(), "a", time.Second) }()
	}
	require.Eventually(t, func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.all == delayedEach }, time.Minute, time.Millisecond)
	err := d.wait(t.Context(), "a", time.Second)
	requireCode(t, fault.CodeLoginThrottled, err)
	require.Equal(t, time.Second, fault.As(err).RetryAfter)
	go func() { ended <- d.wait(t.Context(), "b", time.Second) }()
	close(blocked)
	for range delayedEach + 1 {
		require.ErrorIs(t, <-ended, turns.ErrBusy, "all waited")
	}
	require.Empty(t, d.waiting)
	require.Zero(t, d.all)
}

// Another person may have had the password before. Where they logged in from no longer counts.
func TestNewPasswordForgetsTheAddressesOfOthers(t *testing.T) {
	t.Parallel()
	const elsewhere, next = "198.51.100.7", "another horse"
	for name, change := range map[string]func(*testing.T, *house, Login){
		"change": func(t *testing.T, h *house, me Login) {
			t.Helper()
			require.NoError(t, h.ChangePassword(t.Context(), as(me), h.sessionOf(t, me), NewPassword{Current: password, New: next}))
		},
		"reset": func(t *testing.T, h *house, _ Login) {
			t.Helper()
			h.deliver(t)
			require.NoError(t, h.ForgotPassword(t.Context(), from(home), "ada@example.com"))
			require.NoError(t, h.ResetPassword(t.Context(), from(home), h.only(t).token(t, PageReset), next))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			me := h.join(t, "ada@example.com")
			_, err := h.logInFrom(t, elsewhere, "ada@example.com", password)
			require.NoError(t, err)
			change(t, h, me)
			require.Equal(t, int64(1), one[int64](t, h, "select count(*) from login_addresses"))
			for range 10 {
				_, err = h.logInFrom(t, elsewhere, "ada@example.com", wrong)
				requireCode(t, fault.CodeInvalidCredentials, err)
				_, err = h.logIn(t, "ada@example.com", wrong)
				requireCode(t, fault.CodeInvalidCredentials, err)
			}
			_, err = h.logInFrom(t, elsewhere, "ada@example.com", next)
			requireCode(t, fault.CodeLoginThrottled, err)
			_, err = h.logIn(t, "ada@example.com", next)
			require.NoError(t, err, "where the change was made stays known")
		})
	}
}
