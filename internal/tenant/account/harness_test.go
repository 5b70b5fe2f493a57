package account

import (
	"bytes"
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/tenant/auth"
)

const password = "correct horse"

var home = netip.MustParseAddr("192.0.2.1")

// counted stands for argon2id, which takes a second of the tests' time for every
// ten passwords, and knows how often it was asked.
type counted struct{ hashes, matched atomic.Int64 }

func (c *counted) hash(password string) string {
	c.hashes.Add(1)
	return "hash of " + password
}

func (c *counted) matches(password, stored string) (bool, error) {
	c.matched.Add(1)
	return stored == "hash of "+password, nil
}

func (c *counted) work() [2]int64 { return [2]int64{c.hashes.Swap(0), c.matched.Swap(0)} }

type house struct {
	*Service
	db     testkit.DB
	tokens *auth.Tokens
	work   *counted
	at     atomic.Pointer[time.Time]
	// delayed is the last delay that a login waited for; 0 where it waited for none.
	delayed atomic.Int64
}

// waited returns the delay of the last login.
func (h *house) waited() time.Duration { return time.Duration(h.delayed.Swap(0)) }

func (h *house) clock() time.Time { return *h.at.Load() }

func (h *house) pass(d time.Duration) {
	at := h.clock().Add(d)
	h.at.Store(&at)
}

// from is a caller who is not known yet.
func from(source netip.Addr) actor.Actor {
	return actor.Actor{Kind: actor.System, SourceAddr: source.String()}
}

// as is the user who logged in.
func as(l Login) actor.Actor { return asUser(from(home), l.TenantID, l.UserID) }

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{db: testkit.Database(t), work: &counted{}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h.at.Store(&at)
	secrets, err := auth.NewSecrets(bytes.Repeat([]byte{1}, 32))
	require.NoError(t, err)
	h.tokens, err = auth.NewTokens(auth.TokensConfig{
		Issuer: "i", Audience: "a", SigningSeed: bytes.Repeat([]byte{2}, 32), Now: h.clock,
	})
	require.NoError(t, err)
	h.Service, err = New(Config{Signup: SignupOpen, Permissions: auth.Permissions(), PublicURL: "https://runtime.example.com"},
		Deps{FirstPolicy: []byte(`{"name":"First","description":"","action":"block"}`), DB: h.db.Pool, Secrets: secrets, Tokens: h.tokens, Now: h.clock})
	require.NoError(t, err)
	h.passwords = h.work
	h.delays.pause = func(_ context.Context, d time.Duration) error { h.delayed.Store(int64(d)); return nil }
	return h
}

func (h *house) signUp(t *testing.T, email, password string) SignedUp {
	t.Helper()
	up, err := h.SignUp(t.Context(), from(home), SignupInput{Email: email, Password: password, Name: "Ada"})
	require.NoError(t, err)
	return up
}

func (h *house) logIn(t *testing.T, email, password string) (Login, error) {
	t.Helper()
	return h.LogIn(t.Context(), from(home), LoginInput{Email: email, Password: password})
}

// logInFrom is logIn from another address.
func (h *house) logInFrom(t *testing.T, source, email, password string) (Login, error) {
	t.Helper()
	return h.LogIn(t.Context(), actor.Actor{Kind: actor.System, SourceAddr: source}, LoginInput{Email: email, Password: password})
}

func (h *house) join(t *testing.T, email string) Login {
	t.Helper()
	h.signUp(t, email, password)
	login, err := h.logIn(t, email, password)
	require.NoError(t, err)
	return login
}

// one reads a single value as a superuser.
func one[T any](t *testing.T, h *house, sql string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func requireCode(t *testing.T, want fault.Code, err error) {
	t.Helper()
	f := fault.As(err)
	require.NotNil(t, f, "%v", err)
	require.Equal(t, want, f.Code)
}

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
	return h.RemoveUser(ctx, as(who), id.String(), nil)
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
