package auth_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/tenant/auth"
)

// limit sets the tenant's limits behind the back of the service.
func (h *house) limit(t *testing.T, minute, hour, day int32) {
	t.Helper()
	_, err := h.admin(t).Exec(t.Context(), "UPDATE tenants SET requests_per_minute = $2, requests_per_hour = $3, requests_per_day = $4 WHERE id = $1",
		h.login.TenantID, minute, hour, day)
	require.NoError(t, err)
}

// used returns what the present windows have, in their order.
func used(s rate.State) []int64 {
	var out []int64
	for _, w := range s.Windows {
		out = append(out, w.Used)
	}
	return out
}

// before is half a second before the minute, the hour and the day change.
var before = time.Date(2026, 1, 31, 23, 59, 59, 500e6, time.UTC)

func TestRequestsAreCountedInTheWindowsOfUTC(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	set := testkit.RequestClock(t, h.AdminURL, before)
	call := func() rate.State {
		who, err := h.auth.Key(t.Context(), key.Secret)
		require.NoError(t, err)
		return who.Rate
	}
	for _, step := range []struct {
		name string
		at   time.Time
		want []int64
	}{
		{"first", before.Add(-2 * time.Hour), []int64{1, 1, 1}},
		{"same minute", before.Add(-2 * time.Hour), []int64{2, 2, 2}},
		{"next minute, next hour", before.Add(-2*time.Hour + time.Second), []int64{1, 1, 3}},
		{"another minute of the hour", before.Add(-time.Hour), []int64{1, 2, 4}},
		{"last minute of the day", before, []int64{1, 1, 5}},
		{"same", before, []int64{2, 2, 6}},
		{"next day", before.Add(time.Second), []int64{1, 1, 1}},
		{"of a request that waited: the later window", before, []int64{2, 2, 2}},
		{"a year later", before.AddDate(1, 0, 0), []int64{1, 1, 1}},
		{"the clock was set back", before, []int64{1, 1, 1}},
	} {
		set(step.at)
		require.Equal(t, step.want, used(call()), step.name)
	}
	found := call()
	require.Equal(t, `"minute";q=600;w=60, "hour";q=20000;w=3600, "day";q=200000;w=86400`, found.Policy())
	require.Equal(t, `"minute";r=598;t=1`, found.Tightest().Header())
}

func TestRequestOverAWindowIsRefusedAndNotCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	at := time.Date(2026, 1, 1, 12, 30, 15, 0, time.UTC)
	for _, tc := range []struct {
		window string
		limits [3]int32
		after  time.Duration
	}{{"minute", [3]int32{3, 100, 100}, 45 * time.Second}, {"hour", [3]int32{100, 3, 100}, 29*time.Minute + 45*time.Second}, {"day", [3]int32{100, 100, 3}, 11*time.Hour + 29*time.Minute + 45*time.Second}} {
		h.limit(t, tc.limits[0], tc.limits[1], tc.limits[2])
		at = at.AddDate(0, 0, 1)
		set := h.requestClock(t, at)
		for range 3 {
			_, err := h.auth.Key(t.Context(), key.Secret)
			require.NoError(t, err)
		}
		for range 3 {
			who, err := h.auth.Key(t.Context(), key.Secret)
			require.True(t, fault.HasCode(err, fault.CodeRateLimited), "%v", err)
			require.Equal(t, tc.after, fault.As(err).RetryAfter)
			require.Equal(t, []int64{3, 3, 3}, used(who.Rate))
			require.Equal(t, tc.window, who.Rate.Tightest().Name)
			require.Equal(t, h.login.TenantID, who.TenantID)
		}
		set(at.Add(tc.after - time.Millisecond))
		_, err := h.auth.Key(t.Context(), key.Secret)
		require.True(t, fault.HasCode(err, fault.CodeRateLimited), "%v", err)
		set(at.Add(tc.after))
		_, err = h.auth.Key(t.Context(), key.Secret)
		require.NoError(t, err)
	}
}

// requestClock sets the clock, which the first call makes.
func (h *house) requestClock(t *testing.T, at time.Time) func(time.Time) {
	t.Helper()
	if h.setClock == nil {
		h.setClock = testkit.RequestClock(t, h.AdminURL, at)
	}
	h.setClock(at)
	return h.setClock
}

func TestPeopleHaveWindowsOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	h.limit(t, 2, 100, 100)
	h.requestClock(t, before)
	for range 2 {
		_, err := h.auth.Key(t.Context(), key.Secret)
		require.NoError(t, err)
	}
	_, err := h.auth.Key(t.Context(), key.Secret)
	require.True(t, fault.HasCode(err, fault.CodeRateLimited))
	for range 2 {
		who, err := h.auth.Token(t.Context(), h.login.Token)
		require.NoError(t, err)
		require.Equal(t, "people-minute", who.Rate.Tightest().Name)
	}
	_, err = h.auth.Token(t.Context(), h.login.Token)
	require.True(t, fault.HasCode(err, fault.CodeRateLimited))
	other := h.join(t, "other@example.com")
	_, err = h.auth.Token(t.Context(), other.Token)
	require.NoError(t, err, "another tenant")
}

func TestRefusedCredentialsCountNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	ends := h.clock.at.Add(time.Hour)
	_, err := h.admin(t).Exec(t.Context(), "UPDATE api_keys SET expires_at = $1", ends)
	require.NoError(t, err)
	h.clock.at = ends
	_, err = h.auth.Key(t.Context(), key.Secret)
	require.True(t, fault.HasCode(err, fault.CodeAPIKeyExpired))
	require.NoError(t, h.accounts.RevokeKey(t.Context(), h.owner(), key.ID.String(), nil))
	_, err = h.auth.Key(t.Context(), key.Secret)
	require.True(t, fault.HasCode(err, fault.CodeAPIKeyRevoked))
	unknown, _, _ := h.secrets.NewKey()
	_, err = h.auth.Key(t.Context(), unknown)
	require.True(t, fault.HasCode(err, fault.CodeInvalidAPIKey))
	h.clock.at = ends.Add(-time.Hour)
	require.NoError(t, h.accounts.LogOut(t.Context(), h.owner(), h.session(t)))
	_, err = h.auth.Token(t.Context(), h.login.Token)
	require.True(t, fault.HasCode(err, fault.CodeInvalidToken))
	var rows int
	require.NoError(t, h.admin(t).QueryRow(t.Context(), "SELECT count(*) FROM request_counters").Scan(&rows))
	require.Zero(t, rows)
}

func (h *house) session(t *testing.T) (id uuid.UUID) {
	t.Helper()
	require.NoError(t, h.admin(t).QueryRow(t.Context(), "SELECT id FROM sessions WHERE user_id = $1", h.login.UserID).Scan(&id))
	return id
}

func TestKeyWithLimitsOfItsOwnCountsInBoth(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	narrow, wide := h.key(t), h.key(t)
	_, err := h.admin(t).Exec(t.Context(), "UPDATE api_keys SET requests_per_minute = 2, requests_per_day = 5 WHERE id = $1", narrow.ID)
	require.NoError(t, err)
	h.limit(t, 4, 100, 100)
	set := h.requestClock(t, before.Add(-time.Hour))
	call := func(secret string) string {
		who, err := h.auth.Key(t.Context(), secret)
		if err != nil {
			return fault.As(err).Message
		}
		return who.Rate.Policy() + " | " + who.Rate.Tightest().Header()
	}
	const both = `"minute";q=4;w=60, "hour";q=100;w=3600, "day";q=100;w=86400, "key-minute";q=2;w=60, "key-day";q=5;w=86400 | `
	require.Equal(t, both+`"key-minute";r=1;t=1`, call(narrow.Secret))
	require.Equal(t, both+`"key-minute";r=0;t=1`, call(narrow.Secret))
	require.Equal(t, "The limit of 2 requests (key-minute) is reached. Try again in 1 s.", call(narrow.Secret))
	for range 2 {
		require.Contains(t, call(wide.Secret), `w=86400 | "minute"`, "what the narrow key was refused took nothing of the tenant's")
	}
	require.Equal(t, "The limit of 4 requests (minute) is reached. Try again in 1 s.", call(wide.Secret))

	set(before.Add(-time.Hour + time.Second))
	for range 4 {
		call(wide.Secret)
	}
	require.Equal(t, "The limit of 4 requests (minute) is reached. Try again in 60 s.", call(narrow.Secret))
	set(before.Add(-time.Hour + 2*time.Minute))
	require.Equal(t, both+`"key-minute";r=1;t=1`, call(narrow.Secret))
	require.Equal(t, both+`"key-minute";r=0;t=1`, call(narrow.Secret))
	set(before.Add(-time.Hour + 3*time.Minute))
	require.Equal(t, both+`"key-day";r=0;t=3421`, call(narrow.Secret), "what the tenant was refused took nothing of the key's")
}

func TestOperatorsCeilingCountsOverWhatATenantHasSet(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	h.limit(t, 1000, 5, 1000)
	a, err := auth.NewAuthenticator(auth.Deps{
		DB: h.Pool, Secrets: h.secrets, Tokens: h.tokens, Now: h.clock.now,
		Plan: rate.Plan{Default: rate.Limits{Minute: 1, Hour: 1, Day: 1}, Ceiling: rate.Limits{Minute: 10, Hour: 10, Day: 10}},
	})
	require.NoError(t, err)
	who, err := a.Key(t.Context(), key.Secret)
	require.NoError(t, err)
	require.Equal(t, `"minute";q=10;w=60, "hour";q=5;w=3600, "day";q=10;w=86400`, who.Rate.Policy())
}

// Two processes count in one row. Whatever the order, as many requests as the limit are
// admitted, and not one more.
func TestExactlyTheLimitIsAdmittedOverProcesses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(t)
	second, err := db.Open(t.Context(), db.Config{URL: h.AppURL})
	require.NoError(t, err)
	t.Cleanup(second.Close)
	other, err := auth.NewAuthenticator(auth.Deps{DB: second, Secrets: h.secrets, Tokens: h.tokens, Now: h.clock.now})
	require.NoError(t, err)
	const limit = 20
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, limits := range [][3]int32{{limit, 1000, 1000}, {1000, limit, 1000}, {1000, 1000, limit}} {
		h.limit(t, limits[0], limits[1], limits[2])
		at = at.AddDate(0, 0, i+1)
		h.requestClock(t, at)
		var wg sync.WaitGroup
		admitted := make([]bool, 3*limit)
		for n := range admitted {
			wg.Go(func() {
				a := []*auth.Authenticator{h.auth, other}[n%2]
				_, err := a.Key(t.Context(), key.Secret)
				admitted[n] = err == nil
				if err != nil && !fault.HasCode(err, fault.CodeRateLimited) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		count := 0
		for _, ok := range admitted {
			if ok {
				count++
			}
		}
		require.Equal(t, limit, count)
	}
}
