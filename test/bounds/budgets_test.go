package bounds

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// spender is a tenant on a stack with two API processes and two workers. Its provider counts.
type spender struct {
	*testing.T
	*rig.Tenant
	stack *rig.Stack
	bases []string
	admin *pgx.Conn
	calls atomic.Int64
	// hold keeps the answers of the provider back until it is closed; nil: it answers at once.
	hold    atomic.Pointer[chan struct{}]
	arrived chan struct{}
}

// Budgets go by the month, so the stack has a clock of the test.
func TestBudgets(t *testing.T) {
	t.Parallel()
	stack := rig.Split(t, rig.SplitOptions{Env: []string{"LOG_LEVEL=warn"}, Workers: 2})
	second := stack.StartAPI("second")
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	s := &spender{T: t, Tenant: stack.NewTenant(rig.Address()), stack: stack, bases: []string{stack.APIURL, second.APIURL}, admin: conn, arrived: make(chan struct{}, 1000)}
	s.exec(`CREATE TABLE test_clock (at timestamptz NOT NULL)`)
	s.exec(`INSERT INTO test_clock VALUES ('2026-11-30T23:00:00Z')`)
	s.exec(`GRANT SELECT ON test_clock TO agentruntime_app`)
	s.exec(`CREATE OR REPLACE FUNCTION request_clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM test_clock'`)
	s.Connect(t, "bank", rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		s.arrived <- struct{}{}
		if hold := s.hold.Load(); hold != nil {
			select {
			case <-*hold:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"done":true}`)
	})), document(1), "bearer", m{"token": "bank-token"})
	s.racersSendExactlyTheBudget()
	s.monthBeginsAgain()
	s.killedWorkersLoseNothing()
}

func (s *spender) exec(sql string) {
	s.Helper()
	_, err := s.admin.Exec(s.Context(), sql)
	require.NoError(s, err, sql)
}

func (s *spender) budget(writes int) {
	s.Helper()
	status(s.T, s.User.Do(http.MethodPut, "/v1/budgets", m{"write_calls": writes, "model_tokens": nil, "money_micros": nil}), http.StatusOK)
}

// race makes n calls at once, by turns through both API processes, and returns the statuses of the answers.
func (s *spender) race(name string, n int) map[int]int {
	s.Helper()
	out := map[int]int{}
	for _, a := range together(n, func(i int) rig.Answer {
		own := *s.Runtime
		own.Base = s.bases[i%2]
		return own.Run("bank:pay_1", m{"n": i}, name+strconv.Itoa(i))
	}) {
		require.NoError(s, a.Err)
		if a.Status == http.StatusTooManyRequests {
			require.Equal(s, "BUDGET_EXCEEDED", a.Code(s.T))
			require.NotEmpty(s, a.Header.Get("Retry-After"))
		}
		out[a.Status]++
	}
	return out
}

type shownBudgets struct {
	Month    string
	State    string    `json:"budget_state"`
	ResetsAt time.Time `json:"resets_at"`
	Tenant   struct {
		Writes *struct {
			Limit, Used, Reserved int
			State                 string
		} `json:"write_calls"`
	}
}

func (s *spender) shown() (b shownBudgets) {
	s.Helper()
	s.User.Do(http.MethodGet, "/v1/budgets", nil).Data(s.T, &b)
	return b
}

// health is the state that the rate limits show the key.
func (s *spender) health() string {
	s.Helper()
	var record struct {
		Health struct {
			State string `json:"budget_state"`
		}
	}
	s.Runtime.Do(http.MethodGet, "/v1/rate-limits", nil).Data(s.T, &record)
	return record.Health.State
}

// told returns how many events of the type the tenant has.
func (s *spender) told(kind string) int {
	s.Helper()
	var events []m
	s.User.Do(http.MethodGet, "/v1/events?type="+kind, nil).Data(s.T, &events)
	return len(events)
}

func (s *spender) awaitTold(kind string, n int) {
	s.Helper()
	rig.Until(s.T, time.Minute, kind, func() bool { return s.told(kind) >= n })
	require.Equal(s, n, s.told(kind))
}

func (s *spender) racersSendExactlyTheBudget() {
	const most = 20
	s.budget(most)
	require.Equal(s, "ok", s.health())
	require.Equal(s, map[int]int{http.StatusOK: most, http.StatusTooManyRequests: 64 - most}, s.race("a", 64))
	require.EqualValues(s, most, s.calls.Load())
	got := s.shown()
	require.Equal(s, most, got.Tenant.Writes.Used)
	require.Zero(s, got.Tenant.Writes.Reserved)
	require.Equal(s, "exhausted", got.State)
	require.Equal(s, "exhausted", s.health())
	s.awaitTold("budget.exhausted", 1)
	s.awaitTold("budget.warning", 1)

	// Repeats are answered, a dry run is not counted, and a refused id runs when there is room.
	require.Equal(s, map[int]int{http.StatusOK: most, http.StatusTooManyRequests: 64 - most}, s.race("a", 64))
	status(s.T, s.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", m{"verb": "bank:pay_1", "args": m{}, "dryRun": true}), http.StatusOK)
	require.EqualValues(s, most, s.calls.Load())
	s.budget(most + 3)
	require.Equal(s, map[int]int{http.StatusOK: most + 3, http.StatusTooManyRequests: 64 - most - 3}, s.race("a", 64))
	require.EqualValues(s, most+3, s.calls.Load())
	require.Equal(s, []int{1, 1}, []int{s.told("budget.exhausted"), s.told("budget.warning")})
}

func (s *spender) monthBeginsAgain() {
	before := s.calls.Load()
	s.exec("UPDATE test_clock SET at = '2026-12-01T00:00:00Z'")
	got := s.shown()
	require.Equal(s, "2026-12", got.Month)
	require.Equal(s, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), got.ResetsAt)
	require.Zero(s, got.Tenant.Writes.Used)
	require.Equal(s, "ok", s.health())
	require.Equal(s, map[int]int{http.StatusOK: 23, http.StatusTooManyRequests: 7}, s.race("december-", 30))
	require.Equal(s, before+23, s.calls.Load())
	s.awaitTold("budget.exhausted", 2)
	s.awaitTold("budget.warning", 2)
}

// Workers are killed while calls are at the provider and others wait: what may have been sent
// counts, and what was refused or was not sent leaves its place.
func (s *spender) killedWorkersLoseNothing() {
	const most = 10
	s.exec("UPDATE test_clock SET at = '2027-01-05T00:00:00Z'")
	s.budget(most)
	before := s.calls.Load()
	hold := make(chan struct{})
	s.hold.Store(&hold)
	for len(s.arrived) > 0 {
		<-s.arrived
	}
	answers := make(chan map[int]int, 1)
	go func() { answers <- s.race("killed-", 16) }()
	for range 4 {
		<-s.arrived
	}
	s.stack.Kill("worker")
	s.stack.Kill("worker-2")
	close(hold)
	s.stack.Restart("worker")
	s.stack.Restart("worker-2")
	<-answers
	require.LessOrEqual(s, s.calls.Load()-before, int64(most))
	rig.Until(s.T, 2*time.Minute, "all runs have ended", func() bool { return s.shown().Tenant.Writes.Reserved == 0 })
	got := s.race("after-", most)
	used := s.shown().Tenant.Writes.Used
	require.Equal(s, most, used, "%v", got)
	require.LessOrEqual(s, s.calls.Load()-before, int64(most))
	require.Positive(s, got[http.StatusTooManyRequests], "at least four calls may have been sent before the kill")
}
