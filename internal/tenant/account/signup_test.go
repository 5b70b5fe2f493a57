package account

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

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

// A row that was undone leaves its place on the page empty, so the place of the next row tells
// how many were written.
func TestSecondSignUpWritesAsManyRowsAsTheFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	h.signUp(t, "ada@example.com", password)
	h.signUp(t, "bob@example.com", password)
	places := func(table string) []string {
		return one[[]string](t, h, "select array_agg(ctid::text order by ctid) from "+table)
	}
	for _, table := range []string{"users", "tenants", "policies", "policy_versions", "policy_sets"} {
		require.Equal(t, []string{"(0,1)", "(0,3)"}, places(table), table)
	}
	require.Equal(t, []string{"(0,1)", "(0,2)", "(0,5)", "(0,6)"}, places("audit_records"), "of the tenant and of its first policy")
}

// Where the door is closed, nothing is looked up, so the refusal tells nothing of an address.
func TestSignUpClosedRefusesEachWayIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := h.join(t, "ada@example.com")
	invited := h.invite(t, ada, "bob@example.com", "member")
	h.work.work()
	ways := map[string]func() error{
		"known": func() error {
			_, err := h.SignUp(t.Context(), from(home), SignupInput{Email: "ada@example.com", Password: password})
			return err
		},
		"unknown": func() error {
			_, err := h.SignUp(t.Context(), from(home), SignupInput{Email: "new@example.com", Password: password})
			return err
		},
		"invited": func() error {
			_, err := h.SignUp(t.Context(), from(home), SignupInput{Email: "bob@example.com", Password: password})
			return err
		},
		"invite": func() error {
			_, err := h.Invite(t.Context(), as(ada), InviteInput{Email: "eve@example.com", Role: "member"})
			return err
		},
		"again":  func() error { _, err := h.InviteAgain(t.Context(), as(ada), invited.ID.String()); return err },
		"accept": func() error { _, err := h.accept(t, invited.Token); return err },
	}
	h.cfg.Signup = SignupClosed
	for name, way := range ways {
		err := way()
		requireCode(t, fault.CodeSignupClosed, err)
		require.Contains(t, fault.As(err).Message, "SIGNUP=invite", name)
	}
	require.Equal(t, [2]int64{0, 0}, h.work.work(), "no password is hashed")
	_, err := h.logIn(t, "ada@example.com", password)
	require.NoError(t, err, "who is in stays in")

	h.cfg.Signup = SignupInvite
	for _, name := range []string{"known", "unknown", "invited"} {
		err := ways[name]()
		requireCode(t, fault.CodeSignupClosed, err)
		require.Contains(t, fault.As(err).Message, "by invitation only", name)
	}
	for _, name := range []string{"invite", "accept"} {
		require.NoError(t, ways[name](), name)
	}
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
