package account

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
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
}

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
	h.Service, err = New(Config{Permissions: auth.Permissions()},
		Deps{DB: h.db.Pool, Secrets: secrets, Tokens: h.tokens, Now: h.clock})
	require.NoError(t, err)
	h.passwords = h.work
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

func TestSignUpMakesATenant(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	up := h.signUp(t, "Ada@Example.com", password)
	login, err := h.logIn(t, "ADA@example.com", password)
	require.NoError(t, err)
	require.Equal(t, up.UserID, login.UserID)
	require.Equal(t, "ada@example.com", login.Email)
	require.Equal(t, time.Hour, login.ExpiresIn)
	claims, err := h.tokens.Verify(login.Token)
	require.NoError(t, err)
	require.Equal(t, login.TenantID, claims.TenantID)
	require.Equal(t, login.UserID, claims.UserID)
	require.Equal(t, "owner", one[string](t, h, "select role from users where id = $1", login.UserID))

	other := h.join(t, "bob@example.com")
	require.NotEqual(t, login.TenantID, other.TenantID)
}

//nolint:paralleltest // it watches the log of the server that all tests share
func TestSecondSignUpIsLikeTheFirst(t *testing.T) {
	h := newHouse(t)
	flush := func() string { return one[string](t, h, "select pg_current_wal_flush_lsn()::text") }

	start := flush()
	first := h.signUp(t, "ada@example.com", password)
	require.Equal(t, [2]int64{1, 0}, h.work.work())
	afterFirst := flush()
	second := h.signUp(t, "ADA@example.com", "another password")
	require.Equal(t, [2]int64{1, 0}, h.work.work(), "the same work")
	require.NotEqual(t, start, afterFirst)
	require.NotEqual(t, afterFirst, flush(), "both wait for the disk")

	require.Equal(t, first.Message, second.Message)
	require.NotEqual(t, uuid.Nil, second.UserID)
	require.Equal(t, first.UserID.Version(), second.UserID.Version())
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from users"))
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from tenants"))
	_, err := h.logIn(t, "ada@example.com", "another password")
	requireCode(t, fault.CodeInvalidCredentials, err)
	_, err = h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
}

func TestSignUpRace(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = h.SignUp(t.Context(), from(home), SignupInput{Email: "ada@example.com", Password: password})
		})
	}
	wg.Wait()
	require.Equal(t, make([]error, 8), errs)
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from users"))
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from tenants"))
}

func TestSignUpRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, tc := range map[string]struct {
		in   SignupInput
		want fault.Code
	}{
		"no address":    {SignupInput{Password: password}, fault.CodeValidation},
		"bad address":   {SignupInput{Email: "x", Password: password}, fault.CodeValidation},
		"no password":   {SignupInput{Email: "a@example.com"}, fault.CodeWeakPassword},
		"weak password": {SignupInput{Email: "a@example.com", Password: "1234567"}, fault.CodeWeakPassword},
		"long name":     {SignupInput{Email: "a@example.com", Password: password, Name: strings.Repeat("a", 256)}, fault.CodeValidation},
	} {
		_, err := h.SignUp(t.Context(), from(home), tc.in)
		requireCode(t, tc.want, err)
		require.Equal(t, [2]int64{}, h.work.work(), name)
	}
	require.Zero(t, one[int64](t, h, "select count(*) from users"))
}

func TestUnknownAddressIsLikeAWrongPassword(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	h.work.work()

	_, wrong := h.logIn(t, "ada@example.com", "wrong horse")
	require.Equal(t, [2]int64{0, 1}, h.work.work())
	for _, email := range []string{"bob@example.com", "not an address", "ädä@example.com"} {
		_, unknown := h.logIn(t, email, "wrong horse")
		require.Equal(t, [2]int64{0, 1}, h.work.work(), "the same work")
		require.Equal(t, wrong, unknown, "the same answer")
	}
	requireCode(t, fault.CodeInvalidCredentials, wrong)
	require.Equal(t, int64(4), one[int64](t, h, "select count(*) from login_attempts"), "both are counted")
}

func TestLoginRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, in := range []LoginInput{
		{Password: password},
		{Email: "a@example.com"},
		{Email: strings.Repeat("a", 255), Password: password},
		{Email: "a@example.com", Password: strings.Repeat("a", 1025)},
	} {
		_, err := h.LogIn(t.Context(), from(home), in)
		requireCode(t, fault.CodeValidation, err)
	}
}

func TestLoginThrottle(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	for range 9 {
		_, err := h.logIn(t, "ada@example.com", "wrong horse")
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	_, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err)
	require.Zero(t, one[int64](t, h, "select count(*) from login_attempts"), "a success forgets")

	for _, email := range []string{"ada@example.com", "nobody@example.com"} {
		for range 10 {
			_, err := h.logIn(t, email, "wrong horse")
			requireCode(t, fault.CodeInvalidCredentials, err)
			h.pass(time.Minute)
		}
		h.work.work()
		_, err := h.logIn(t, email, password)
		requireCode(t, fault.CodeLoginThrottled, err)
		require.Equal(t, 5*time.Minute, fault.As(err).RetryAfter, "from the first failure on")
		require.Equal(t, [2]int64{}, h.work.work(), "no hashing for the throttled")
	}
	_, err = h.LogIn(t.Context(), from(netip.MustParseAddr("192.0.2.2")), LoginInput{Email: "nobody@example.com", Password: password})
	requireCode(t, fault.CodeInvalidCredentials, err)
	h.pass(5 * time.Minute)
	_, err = h.logIn(t, "ada@example.com", password)
	require.NoError(t, err, "the window has ended")
	_, err = h.logIn(t, "nobody@example.com", password)
	requireCode(t, fault.CodeInvalidCredentials, err)
}

func TestLoginThrottleHoldsInABurst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	h.work.work()
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, _ = h.LogIn(t.Context(), from(home), LoginInput{Email: "ada@example.com", Password: "wrong horse"})
		})
	}
	wg.Wait()
	tried := h.work.work()[1]
	require.GreaterOrEqual(t, tried, int64(10))
	require.LessOrEqual(t, tried, int64(11), "the limit, and one more slot")
}

func TestEndedWindowsAreCleared(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for i := range 5 {
		_, err := h.logIn(t, string(rune('a'+i))+"@example.com", "wrong horse")
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	require.Equal(t, int64(5), one[int64](t, h, "select count(*) from login_attempts"))
	h.pass(15 * time.Minute)
	_, err := h.logIn(t, "a@example.com", "wrong horse")
	requireCode(t, fault.CodeInvalidCredentials, err)
	require.Equal(t, int64(1), one[int64](t, h, "select count(*) from login_attempts"))
	require.Equal(t, int64(1), one[int64](t, h, "select failures::bigint from login_attempts"), "a new window")
}

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

func TestKeyLifeCycle(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	list := func(status string) []string {
		keys, err := h.ListKeys(t.Context(), me.TenantID, status)
		require.NoError(t, err)
		out := []string{}
		for _, k := range keys {
			require.Empty(t, k.Secret)
			out = append(out, k.Name+" "+k.Status)
		}
		return out
	}
	require.Equal(t, []string{}, list(""))
	first, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "first"})
	require.NoError(t, err)
	second, err := h.CreateKey(t.Context(), as(me),
		KeyInput{Name: "second", AgentID: new("a"), IdentityMode: new("required"), AllowedOrigins: []string{"https://a.example"}})
	require.NoError(t, err)
	require.Equal(t, []string{"second active", "first active"}, list("active"))

	keys, err := h.ListKeys(t.Context(), me.TenantID, "")
	require.NoError(t, err)
	second.Secret = ""
	require.Equal(t, second, keys[0], "listed as created")

	require.NoError(t, h.RevokeKey(t.Context(), as(me), first.ID.String()))
	requireCode(t, fault.CodeAPIKeyNotFound, h.RevokeKey(t.Context(), as(me), first.ID.String()))
	require.Equal(t, []string{"second active"}, list(""))
	require.Equal(t, []string{"second active", "first revoked"}, list("ALL"))
	_, err = h.ListKeys(t.Context(), me.TenantID, "revoked")
	requireCode(t, fault.CodeValidation, err)
}

// A run on its way to sending holds its key's lock until that is committed, so
// nothing begins to be sent after the revocation has answered.
func TestRevocationWaitsForRunsBeingSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
	require.NoError(t, err)
	impatient, err := db.Open(t.Context(), db.Config{URL: h.db.AppURL + "&lock_timeout=50"})
	require.NoError(t, err)
	t.Cleanup(impatient.Close)
	h.d.DB = impatient

	err = h.db.InTenant(t.Context(), me.TenantID, func(tx pgx.Tx) error {
		id := key.ID.String()
		if err := dbsqlc.New().EnterGate(t.Context(), tx, dbsqlc.EnterGateParams{KeyID: &id, TenantID: me.TenantID.String()}); err != nil {
			return err
		}
		require.ErrorContains(t, h.RevokeKey(t.Context(), as(me), key.ID.String()), "lock timeout")
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, h.RevokeKey(t.Context(), as(me), key.ID.String()))
}

func TestForeignKeyIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	key, err := h.CreateKey(t.Context(), as(other), KeyInput{Name: "theirs"})
	require.NoError(t, err)

	foreign := h.RevokeKey(t.Context(), as(me), key.ID.String())
	require.Equal(t, fault.New(fault.CodeAPIKeyNotFound, ""), foreign)
	for _, unknown := range []string{uuid.New().String(), "x", "", "{" + key.ID.String() + "}", strings.ToUpper(key.ID.String())} {
		require.Equal(t, foreign, h.RevokeKey(t.Context(), as(me), unknown))
	}
	keys, err := h.ListKeys(t.Context(), me.TenantID, "all")
	require.NoError(t, err)
	require.Empty(t, keys)
	keys, err = h.ListKeys(t.Context(), other.TenantID, "")
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

// Row-level security holds even where a query forgets the tenant.
func TestRowsShowOnlyToTheirTenantOrPresenter(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me, other := h.join(t, "ada@example.com"), h.join(t, "bob@example.com")
	for _, who := range []Login{me, other} {
		_, err := h.CreateKey(t.Context(), as(who), KeyInput{Name: "k"})
		require.NoError(t, err)
	}
	for _, table := range []string{"users", "sessions", "refresh_tokens", "api_keys"} {
		count := func(tenant uuid.UUID) (n int64) {
			require.NoError(t, h.db.Tenant(tenant).QueryRow(t.Context(), "select count(*) from "+table).Scan(&n))
			return n
		}
		require.Equal(t, int64(2), one[int64](t, h, "select count(*) from "+table), table)
		require.Equal(t, int64(1), count(me.TenantID), table)
		require.Zero(t, count(uuid.New()), table)
	}
	_, err := h.db.Tenant(me.TenantID).Exec(t.Context(), "update api_keys set tenant_id = $1", other.TenantID)
	require.Error(t, err, "a row cannot be given away")
	var seen []string
	rows, err := h.db.Presenting("app.login_email", "bob@example.com").Query(t.Context(), "select email from users")
	require.NoError(t, err)
	seen, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"bob@example.com"}, seen)
}

func TestNothingSecretIsStored(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.passwords = newArgon2id()
	me := h.join(t, "ada@example.com")
	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
	require.NoError(t, err)
	_, err = h.logIn(t, "a password in the wrong field", password+"!")
	requireCode(t, fault.CodeInvalidCredentials, err)
	stored := one[string](t, h, `select (select jsonb_agg(to_jsonb(u)) from users u)::text || (select jsonb_agg(to_jsonb(r)) from refresh_tokens r)::text
		|| (select jsonb_agg(to_jsonb(k)) from api_keys k)::text || (select jsonb_agg(to_jsonb(l)) from login_attempts l)::text`)
	for _, secret := range []string{password, key.Secret, key.Secret[4:34], me.RefreshToken, "wrong field"} {
		require.NotContains(t, stored, secret)
	}
	require.Contains(t, stored, key.Preview)
}

func TestNewChecksItsDeps(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Permissions: auth.Permissions()}, Deps{})
	require.Error(t, err)
	h := newHouse(t)
	_, err = New(Config{}, h.d)
	require.Error(t, err)
}
