package bounds

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The tests of the rate limits set the clock by which all processes count. So they have a stack of
// their own, and run one after the other.
func TestRateLimits(t *testing.T) { //nolint:tparallel // its parts share the clock
	t.Parallel()
	stack := newCounted(t)
	for name, test := range map[string]func(*counted){ //nolint:paralleltest // as above
		"window admits exactly its limit": windowAdmitsExactlyItsLimit, "key with limits of its own": keyWithLimitsOfItsOwn,
		"people have windows of their own": peopleHaveWindowsOfTheirOwn,
	} {
		t.Run(name, func(t *testing.T) {
			own := *stack
			own.T, own.tenant = t, stack.stack.For(t).NewTenant(rig.Address())
			test(&own)
		})
	}
}

// counted is a stack with two API processes.
type counted struct {
	*testing.T
	stack  *rig.Stack
	admin  *pgx.Conn
	tenant *rig.Tenant
	// bases are the addresses of the processes.
	bases []string
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	first := rig.Split(t, rig.SplitOptions{Env: []string{"LOG_LEVEL=warn"}})
	second := first.StartAPI("second")
	conn, err := pgx.Connect(t.Context(), first.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	c := &counted{T: t, stack: first, admin: conn, bases: []string{first.APIURL, second.APIURL}}
	c.exec(`CREATE TABLE test_clock (at timestamptz NOT NULL)`)
	c.exec(`INSERT INTO test_clock VALUES (now())`)
	c.exec(`GRANT SELECT ON test_clock TO agentruntime_app`)
	c.exec(`CREATE OR REPLACE FUNCTION request_clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM test_clock'`)
	return c
}

func (c *counted) exec(sql string, args ...any) {
	c.Helper()
	_, err := c.admin.Exec(c.Context(), sql, args...)
	require.NoError(c, err, sql)
}

func (c *counted) setClock(at time.Time) { c.Helper(); c.exec("UPDATE test_clock SET at = $1", at) }

// outcome is what one call was told of the tightest window. ending says that the window ends
// within the second: it is the one before the crossing.
type outcome struct {
	status    int
	remaining string
	ending    bool
}

// race makes three times as many calls at once as there are places, by turns through both processes, and does what between after the
// first half was sent.
func (c *counted) race(client *rig.Client, between func()) []outcome {
	c.Helper()
	var wg sync.WaitGroup
	const n = 3 * place
	out := make([]outcome, n)
	for i := range n {
		if i == n/2 {
			between()
		}
		wg.Go(func() {
			own := *client
			own.Base = c.bases[i%len(c.bases)]
			a := own.Do(http.MethodGet, "/v1/me", nil)
			if a.Err != nil {
				c.Error(a.Err)
				return
			}
			out[i] = outcome{a.Status, a.Header.Get("X-RateLimit-Remaining"), a.Header.Get("X-RateLimit-Reset") == "1"}
		})
	}
	wg.Wait()
	return out
}

// admitted requires that what each window admitted is exact: its calls were told n-1, n-2, and so
// on in some order, and where it refused one, it has admitted n. It returns how many the
// window admitted that ends, and how many the next one.
func (c *counted) admitted(n int, calls []outcome) (before, after int) {
	c.Helper()
	seen, refused, count := map[outcome]bool{}, map[bool]bool{}, map[bool]int{}
	for _, o := range calls {
		if o.status == http.StatusTooManyRequests {
			require.Equal(c, "0", o.remaining)
			refused[o.ending] = true
			continue
		}
		require.Equal(c, http.StatusOK, o.status)
		require.False(c, seen[o], "two calls took the same place")
		seen[o] = true
		count[o.ending]++
	}
	for ending, got := range count {
		for place := range got {
			require.True(c, seen[outcome{http.StatusOK, strconv.Itoa(n - 1 - place), ending}], "a place was left out")
		}
	}
	for ending := range refused {
		require.Equal(c, n, count[ending], "refused while there was room")
	}
	return count[true], count[false]
}

const place = 8 // the limit of the window that a test fills

// limitsOf returns a body that limits one window to place, and the others to far more.
func limitsOf(window string) m {
	out := m{"requests_per_minute": 1_000_000, "requests_per_hour": 1_000_000, "requests_per_day": 1_000_000}
	out["requests_per_"+window] = place
	return out
}

// Each round begins a window, and has three times as many calls as it admits.
func windowAdmitsExactlyItsLimit(c *counted) {
	minute := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	crossed := 0
	for _, w := range []struct {
		name   string
		length time.Duration
	}{{"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}} {
		minute = minute.AddDate(0, 1, 0)
		at := minute
		c.setClock(at) // of people too, who have windows of their own
		c.set(w.name)
		const rounds = 100
		for round := range rounds {
			at = at.Add(w.length)
			c.setClock(at)
			if round%2 == 0 {
				_, got := c.admitted(place, c.race(c.tenant.Runtime, func() {}))
				require.Equal(c, place, got, "%s, round %d", w.name, round)
				continue
			}
			// The window ends while the calls are under way.
			ends := at.Truncate(w.length).Add(w.length)
			c.setClock(ends.Add(-time.Second))
			calls := c.race(c.tenant.Runtime, func() { c.setClock(ends.Add(time.Second)) })
			before, after := c.admitted(place, calls)
			if before > 0 && after > 0 {
				crossed++
			}
			at = ends.Add(time.Second)
		}
	}
	require.Positive(c, crossed, "no round had calls in both windows")
}

// set limits one window of the tenant.
func (c *counted) set(window string) {
	c.Helper()
	a := c.tenant.User.Do(http.MethodPut, "/v1/rate-limits", limitsOf(window))
	require.Equal(c, http.StatusOK, a.Status, "%s", a.Body)
}

// A key's own limit is exact too, and what it refuses takes nothing of the tenant's window.
func keyWithLimitsOfItsOwn(c *counted) {
	at := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	c.setClock(at)
	var made struct {
		ID, Key string
		Limits  map[string]*int
	}
	user := c.tenant.User
	user.Do(http.MethodPost, "/v1/api-keys", m{"name": "narrow", "limits": m{"requests_per_minute": place}}).Data(c, &made)
	require.Equal(c, map[string]*int{"requests_per_minute": new(place), "requests_per_hour": nil, "requests_per_day": nil}, made.Limits)
	narrow := &rig.Client{Base: c.bases[0], Key: made.Key, HTTP: c.tenant.Runtime.HTTP}
	for round := range 20 {
		at = at.Add(time.Minute)
		c.setClock(at)
		_, got := c.admitted(place, c.race(narrow, func() {}))
		require.Equal(c, place, got, round)
		var record struct{ Current struct{ Minute int } }
		user.Do(http.MethodGet, "/v1/rate-limits", nil).Data(c, &record)
		require.Equal(c, place, record.Current.Minute, "of the tenant")
	}
	require.Equal(c, http.StatusTooManyRequests, narrow.Do(http.MethodGet, "/v1/me", nil).Status)

	key := "/v1/api-keys/" + made.ID
	user.Do(http.MethodPost, key+"/rotate", nil).Data(c, &made)
	narrow.Key = made.Key
	require.Equal(c, http.StatusTooManyRequests, narrow.Do(http.MethodGet, "/v1/me", nil).Status, "a rotation keeps the limits")
	for limits, want := range map[string]string{
		`{"requests_per_minute": 0}`: "/limits/requests_per_minute", `{"minute": 1}`: "/limits/minute", `[]`: "/limits", `{"requests_per_day": "1"}`: "/limits/requests_per_day",
	} {
		a := user.Do(http.MethodPatch, key, []byte(`{"limits":`+limits+`}`))
		require.Equal(c, http.StatusBadRequest, a.Status, limits)
		require.Contains(c, string(a.Body), fmt.Sprintf("%q", want), limits)
	}
	require.Equal(c, http.StatusOK, user.Do(http.MethodPatch, key, m{"name": "still narrow"}).Status)
	require.Equal(c, http.StatusTooManyRequests, narrow.Do(http.MethodGet, "/v1/me", nil).Status)
	user.Do(http.MethodPatch, key, m{"limits": nil}).Data(c, &made)
	require.Nil(c, made.Limits["requests_per_minute"])
	require.Equal(c, http.StatusOK, narrow.Do(http.MethodGet, "/v1/me", nil).Status)
}

// People decide and read while the windows of the keys are full, and the tenant is told once.
func peopleHaveWindowsOfTheirOwn(c *counted) {
	c.setClock(time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC))
	c.set("minute")
	c.race(c.tenant.Runtime, func() {})
	var record struct {
		Tenant  map[string]int
		Current struct{ Minute, Hour, Day int }
		People  struct {
			Current struct{ Minute, Hour, Day int }
		}
	}
	a := c.tenant.User.Do(http.MethodGet, "/v1/rate-limits", nil)
	a.Data(c, &record)
	require.Equal(c, place, record.Current.Minute)
	require.Equal(c, 2, record.People.Current.Minute, "the PUT and this call")
	require.Equal(c, strconv.Itoa(place-2), a.Header.Get("X-RateLimit-Remaining"))
	var events []struct{ Event, Window, Callers string }
	rig.Until(c, time.Minute, "the event is listed", func() bool {
		c.tenant.User.Do(http.MethodGet, "/v1/events?type=limit.exceeded", nil).Data(c, &events)
		return len(events) > 0
	})
	require.Len(c, events, 1)
	require.Equal(c, "minute", events[0].Window)
	require.Equal(c, "keys", events[0].Callers)
}
