package auth_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/auth"
)

// house is an installation with one tenant: what the tests of a package that
// reads accounts need to have been written.
type house struct {
	testkit.DB
	clock    *clock
	secrets  *auth.Secrets
	tokens   *auth.Tokens
	accounts *account.Service
	auth     *auth.Authenticator
	login    account.Login
	setClock func(time.Time)
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{DB: testkit.Database(t), clock: newClock(), secrets: newSecrets(t)}
	h.tokens = newTokens(t, h.clock, seed(1))
	var err error
	h.accounts, err = account.New(account.Config{Signup: account.SignupOpen, Permissions: auth.Permissions()},
		account.Deps{FirstPolicy: []byte(`{"name":"First","description":"","action":"block"}`), DB: h.Pool, Secrets: h.secrets, Tokens: h.tokens, Now: h.clock.now})
	require.NoError(t, err)
	h.auth, err = auth.NewAuthenticator(auth.Deps{DB: h.Pool, Secrets: h.secrets, Tokens: h.tokens, Now: h.clock.now})
	require.NoError(t, err)
	h.login = h.join(t, "owner@example.com")
	return h
}

// stranger returns a caller who is not known yet.
func stranger() actor.Actor { return actor.Actor{Kind: actor.System, SourceAddr: "192.0.2.1"} }

// owner returns the user who signed up.
func (h *house) owner() actor.Actor {
	return actor.Actor{Kind: actor.User, TenantID: h.login.TenantID, ID: h.login.UserID, Role: actor.RoleOwner}
}

// join signs a user up and in.
func (h *house) join(t *testing.T, email string) account.Login {
	t.Helper()
	_, err := h.accounts.SignUp(t.Context(), stranger(), account.SignupInput{Email: email, Password: "correct horse", Name: "Ada"})
	require.NoError(t, err)
	login, err := h.accounts.LogIn(t.Context(), stranger(), account.LoginInput{Email: email, Password: "correct horse"})
	require.NoError(t, err)
	return login
}

func (h *house) key(t *testing.T, permissions ...string) account.Key {
	t.Helper()
	key, err := h.accounts.CreateKey(t.Context(), h.owner(),
		account.KeyInput{Name: "test", Permissions: permissions, AllowedOrigins: []string{"https://app.example.com"}})
	require.NoError(t, err)
	return key
}

func (h *house) admin(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestKeyAuthenticates(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t, auth.PermActionsRun, auth.PermActionsCatalog)

	who, err := h.auth.Key(t.Context(), key.Secret)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 1}, used(who.Rate))
	who.Rate = rate.State{}
	require.Equal(t, auth.Principal{
		Kind: actor.Key, TenantID: h.login.TenantID, Name: "test", KeyID: key.ID,
		Permissions:    []string{auth.PermActionsRun, auth.PermActionsCatalog},
		AllowedOrigins: []string{"https://app.example.com"}, AllowedIPs: []string{},
	}, who)

	unknown, _, _ := h.secrets.NewKey()
	_, err = h.auth.Key(t.Context(), unknown)
	require.Equal(t, fault.CodeInvalidAPIKey, fault.As(err).Code)

	require.NoError(t, h.accounts.RevokeKey(t.Context(), h.owner(), key.ID.String(), nil))
	_, err = h.auth.Key(t.Context(), key.Secret)
	require.Equal(t, fault.CodeAPIKeyRevoked, fault.As(err).Code)
}

func TestKeyExpires(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ends := h.clock.at.Add(time.Hour)
	key, err := h.accounts.CreateKey(t.Context(), h.owner(), account.KeyInput{Name: "k", ExpiresAt: &ends})
	require.NoError(t, err)
	h.clock.at = ends.Add(-time.Microsecond)
	_, err = h.auth.Key(t.Context(), key.Secret)
	require.NoError(t, err)
	h.clock.at = ends
	_, err = h.auth.Key(t.Context(), key.Secret)
	require.Equal(t, fault.CodeAPIKeyExpired, fault.As(err).Code)
}

// Both secrets are the same key during the overlap. A revocation ends both.
func TestRotatedKeyHasTwoSecretsForTheOverlap(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	is := func(secret string) string {
		who, err := h.auth.Key(t.Context(), secret)
		if err != nil {
			return string(fault.As(err).Code)
		}
		require.Equal(t, key.ID, who.KeyID)
		return "valid"
	}
	rotate := func(overlap time.Duration) account.Key {
		rotated, err := h.accounts.RotateKey(t.Context(), h.owner(), key.ID.String(), overlap)
		require.NoError(t, err)
		return rotated
	}
	second := rotate(time.Minute)
	require.NotEqual(t, key.Secret, second.Secret)
	require.Equal(t, new(h.clock.at.Add(time.Minute)), second.PreviousUntil)
	require.Equal(t, "valid", is(key.Secret))
	require.Equal(t, "valid", is(second.Secret))
	h.clock.at = h.clock.at.Add(time.Minute)
	require.Equal(t, "API_KEY_EXPIRED", is(key.Secret))
	require.Equal(t, "valid", is(second.Secret))

	third := rotate(0)
	require.Nil(t, third.PreviousUntil)
	require.Equal(t, "INVALID_API_KEY", is(key.Secret))
	require.Equal(t, "API_KEY_EXPIRED", is(second.Secret))
	require.Equal(t, "valid", is(third.Secret))

	fourth := rotate(time.Minute)
	require.NoError(t, h.accounts.RevokeKey(t.Context(), h.owner(), key.ID.String(), nil))
	require.Equal(t, "API_KEY_REVOKED", is(third.Secret))
	require.Equal(t, "API_KEY_REVOKED", is(fourth.Secret))
}

func TestKeyMayCallFromItsNetworksOnly(t *testing.T) {
	t.Parallel()
	p := auth.Principal{AllowedIPs: []string{"203.0.113.0/24", "2001:db8::/32", "198.51.100.7/32"}}
	for address, want := range map[string]bool{
		"203.0.113.255": true, "203.0.114.0": false, "2001:db8::1": true, "2001:db9::1": false, "198.51.100.7": true, "198.51.100.8": false,
		"": false, "@": false, "203.0.113.7:80": false,
	} {
		require.Equal(t, want, p.MayCallFrom(address), address)
	}
	require.True(t, auth.Principal{}.MayCallFrom("@"), "an empty list is everywhere")
}

func TestKeyUseIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	used := func() *time.Time {
		keys, err := h.accounts.ListKeys(t.Context(), h.login.TenantID, "")
		require.NoError(t, err)
		require.Len(t, keys, 1)
		return keys[0].LastUsedAt
	}
	require.Nil(t, used())
	for _, step := range []struct {
		after time.Duration
		want  time.Duration // since the first use
	}{{0, 0}, {59 * time.Second, 0}, {time.Second, time.Minute}, {time.Hour, time.Hour + time.Minute}} {
		h.clock.at = h.clock.at.Add(step.after)
		_, err := h.auth.Key(t.Context(), key.Secret)
		require.NoError(t, err)
		require.Equal(t, newClock().at.Add(step.want), used().UTC())
	}
}

// roundTrips counts what goes to Postgres.
type roundTrips struct{ batches, queries atomic.Int64 }

func (r *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.queries.Add(1)
	return ctx
}
func (*roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.batches.Add(1)
	return ctx
}
func (*roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestAuthenticatingTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	count := &roundTrips{}
	pool, err := db.Open(t.Context(), db.Config{URL: h.AppURL, Tracer: count})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := auth.NewAuthenticator(auth.Deps{DB: pool, Secrets: h.secrets, Tokens: h.tokens, Now: h.clock.now})
	require.NoError(t, err)

	mistyped := "ark_" + key.Secret[5:] + "A"
	for _, tc := range []struct {
		name string
		call func() error
		want int64
	}{
		{"mistyped key", func() error { _, err := a.Key(t.Context(), mistyped); return err }, 0},
		{"forged token", func() error { _, err := a.Token(t.Context(), h.login.Token+"A"); return err }, 0},
		{"key, first use", func() error { _, err := a.Key(t.Context(), key.Secret); return err }, 2},
		{"key", func() error { _, err := a.Key(t.Context(), key.Secret); return err }, 1},
		{"token", func() error { _, err := a.Token(t.Context(), h.login.Token); return err }, 1},
	} {
		before, queries := count.batches.Load(), count.queries.Load()
		if err := tc.call(); tc.want > 0 {
			require.NoError(t, err, tc.name)
		} else {
			require.Error(t, err, tc.name)
		}
		require.Equal(t, tc.want, count.batches.Load()-before, tc.name)
		require.Zero(t, count.queries.Load()-queries, tc.name)
	}
}

func TestTokenAuthenticates(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	who, err := h.auth.Token(t.Context(), h.login.Token)
	require.NoError(t, err)
	require.Equal(t, actor.User, who.Kind)
	require.Equal(t, h.login.TenantID, who.TenantID)
	require.Equal(t, h.login.UserID, who.UserID)
	require.Equal(t, actor.RoleOwner, who.Role)
	require.Equal(t, "owner@example.com", who.Email)
	require.False(t, who.Has(auth.PermActionsRun), "a user holds no key permission")

	other := h.join(t, "other@example.com")
	for name, claims := range map[string][3]uuid.UUID{
		"unknown session":          {who.UserID, who.TenantID, uuid.New()},
		"session of other tenant":  {who.UserID, other.TenantID, who.SessionID},
		"session of another user":  {other.UserID, who.TenantID, who.SessionID},
		"tenant that is not there": {who.UserID, uuid.New(), who.SessionID},
	} {
		raw, _, err := h.tokens.Issue(claims[0], claims[1], claims[2])
		require.NoError(t, err)
		_, err = h.auth.Token(t.Context(), raw)
		require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code, name)
	}

	require.NoError(t, h.accounts.LogOut(t.Context(), who.Actor("", ""), who.SessionID))
	_, err = h.auth.Token(t.Context(), h.login.Token)
	require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code, "a logout acts at once")
	_, err = h.auth.Token(t.Context(), other.Token)
	require.NoError(t, err)
}

func TestSessionEndsWithItsTokensStillSigned(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	who, err := h.auth.Token(t.Context(), h.login.Token)
	require.NoError(t, err)
	h.clock.at = h.clock.at.Add(90 * 24 * time.Hour)
	raw, _, err := h.tokens.Issue(who.UserID, who.TenantID, who.SessionID)
	require.NoError(t, err)
	_, err = h.auth.Token(t.Context(), raw)
	require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code)
}

// hub is one API process's Revocations, listening.
func (h *house) hub(t *testing.T, dial func(context.Context) (*pgx.Conn, error)) *auth.Revocations {
	t.Helper()
	r, err := auth.NewRevocations(auth.RevocationsDeps{DB: h.Pool, Dial: dial, Log: testkit.Quiet(), Now: h.clock.now})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Listen(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	return r
}

func cancelledAsRevoked(t *testing.T, ctx context.Context) { //nolint:revive // t comes first in tests
	t.Helper()
	select {
	case <-ctx.Done():
		require.True(t, fault.HasCode(context.Cause(ctx), fault.CodeAPIKeyRevoked))
	case <-time.After(time.Minute):
		require.Fail(t, "the request was not cancelled")
	}
}

func TestRevocationReachesEveryProcess(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key, spared := h.key(t), h.key(t)
	one, two := h.hub(t, h.Dial), h.hub(t, h.Dial)
	bind := func(r *auth.Revocations, k account.Key) context.Context {
		who, err := h.auth.Key(t.Context(), k.Secret)
		require.NoError(t, err)
		ctx, stop := r.Bind(t.Context(), who)
		t.Cleanup(stop)
		return ctx
	}
	first, again, elsewhere, other := bind(one, key), bind(one, key), bind(two, key), bind(one, spared)
	released, stop := one.Bind(t.Context(), auth.Principal{Kind: actor.Key, TenantID: h.login.TenantID, KeyID: key.ID})
	stop()
	require.ErrorIs(t, context.Cause(released), context.Canceled)

	require.NoError(t, h.accounts.RevokeKey(t.Context(), h.owner(), key.ID.String(), nil))
	for _, ctx := range []context.Context{first, again, elsewhere} {
		cancelledAsRevoked(t, ctx)
	}
	require.NoError(t, other.Err())

	late, stop := one.Bind(t.Context(), auth.Principal{Kind: actor.Key, TenantID: h.login.TenantID, KeyID: key.ID})
	defer stop()
	cancelledAsRevoked(t, late)

	user, stopUser := one.Bind(t.Context(), auth.Principal{Kind: actor.User, TenantID: h.login.TenantID})
	require.NoError(t, user.Err())
	stopUser()
	require.Error(t, user.Err())
}

func TestRevocationWhileTheListenerIsCutOff(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	dialled := make(chan *pgx.Conn, 1)
	mayDial := make(chan struct{}, 1)
	var once sync.Once
	r := h.hub(t, func(ctx context.Context) (*pgx.Conn, error) {
		select {
		case <-mayDial:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := h.Dial(ctx)
		once.Do(func() { dialled <- conn })
		return conn, err
	})
	who, err := h.auth.Key(t.Context(), key.Secret)
	require.NoError(t, err)
	ctx, stop := r.Bind(t.Context(), who)
	defer stop()

	mayDial <- struct{}{}
	conn := <-dialled
	_, err = h.admin(t).Exec(t.Context(), "select pg_terminate_backend($1)", conn.PgConn().PID())
	require.NoError(t, err)
	// The notice of this revocation goes to nobody: the listener waits for a new
	// connection until mayDial.
	require.NoError(t, h.accounts.RevokeKey(t.Context(), h.owner(), key.ID.String(), nil))
	require.NoError(t, ctx.Err())
	mayDial <- struct{}{}
	cancelledAsRevoked(t, ctx)
}

func TestConstructorsCheckTheirDeps(t *testing.T) {
	t.Parallel()
	_, err := auth.NewAuthenticator(auth.Deps{})
	require.Error(t, err)
	_, err = auth.NewRevocations(auth.RevocationsDeps{})
	require.Error(t, err)
}

func TestCallerWhoIsLookedAtAgainIsNotCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t, auth.PermEventsRead)
	again := auth.Uncounted(t.Context())
	for range 3 {
		who, err := h.auth.Key(again, key.Secret)
		require.NoError(t, err)
		require.Equal(t, rate.State{}, who.Rate)
		who, err = h.auth.Token(again, h.login.Token)
		require.NoError(t, err)
		require.Equal(t, rate.State{}, who.Rate)
	}
	who, err := h.auth.Key(t.Context(), key.Secret)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 1}, used(who.Rate))
	require.NoError(t, h.accounts.RevokeKey(t.Context(), h.owner(), key.ID.String(), nil))
	_, err = h.auth.Key(again, key.Secret)
	require.Equal(t, fault.CodeAPIKeyRevoked, fault.As(err).Code)
}
