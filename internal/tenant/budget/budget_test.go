package budget_test

import (
	"bufio"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
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
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/quota"
	"agentruntime/internal/tenant/budget"
)

func TestMain(m *testing.M) {
	if url := os.Getenv("TEST_RESERVES_AT"); url != "" {
		reserveAndWait(url, uuid.MustParse(os.Getenv("TEST_TENANT")))
	}
	testkit.Main(m)
}

// reserveAndWait is a worker in a process of its own. It reserves, says so and waits to be killed.
func reserveAndWait(url string, tenant uuid.UUID) {
	pool, err := db.Open(context.Background(), db.Config{URL: url})
	if err != nil {
		panic(err)
	}
	s, err := budget.New(budget.Config{Lease: time.Minute}, budget.Deps{DB: pool})
	if err != nil {
		panic(err)
	}
	if _, err := s.Reserve(context.Background(), tenant, nil, budget.Amount{Tokens: 100}); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("reserved\n")
	select {}
}

// purse is a database with a tenant and a key of it, at a time.
type purse struct {
	testkit.DB
	*testing.T
	tenant, key uuid.UUID
	// processes are the service over pools of their own.
	processes []*budget.Service
	setClock  func(time.Time)
}

func newPurse(t *testing.T) *purse {
	t.Helper()
	p := &purse{DB: testkit.Database(t), T: t, tenant: uuid.New(), key: uuid.New()}
	p.exec(`INSERT INTO tenants (id, name) VALUES ($1, 't')`, p.tenant)
	p.exec(`INSERT INTO users (id, tenant_id, email, name, password_hash, role, created_at, joined_at) VALUES ($1, $1, 'a@b.c', 'A', 'x', 'owner', now(), now())`, p.tenant)
	p.exec(`INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, identity_mode, allowed_origins, created_by, created_at)
	        VALUES ($1, $2, sha256('x'), 'p', 'n', '{actions:run}', 'identified', '{}', $2, now())`, p.key, p.tenant)
	p.setClock = testkit.RequestClock(t, p.AdminURL, time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC))
	for range 2 {
		pool, err := db.Open(t.Context(), db.Config{URL: p.AppURL})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		limits, err := quota.New(map[string]int64{"budgets": 4})
		require.NoError(t, err)
		s, err := budget.New(budget.Config{Lease: time.Minute}, budget.Deps{DB: pool, Quotas: limits})
		require.NoError(t, err)
		p.processes = append(p.processes, s)
	}
	return p
}

func (p *purse) admin(do func(*pgx.Conn)) {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), p.AdminURL)
	require.NoError(p, err)
	defer conn.Close(context.WithoutCancel(p.Context()))
	do(conn)
}

func (p *purse) exec(sql string, args ...any) {
	p.Helper()
	p.admin(func(c *pgx.Conn) {
		_, err := c.Exec(p.Context(), sql, args...)
		require.NoError(p, err)
	})
}

func (p *purse) texts(sql string, args ...any) (out []string) {
	p.Helper()
	p.admin(func(c *pgx.Conn) {
		rows, err := c.Query(p.Context(), sql, args...)
		require.NoError(p, err)
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(p, err)
	})
	return out
}

func (p *purse) owner() actor.Actor {
	return actor.Actor{Kind: actor.User, TenantID: p.tenant, ID: p.tenant, Role: actor.RoleOwner}
}

func (p *purse) set(key *uuid.UUID, to budget.Limits) {
	p.Helper()
	require.NoError(p, p.processes[0].Set(p.Context(), p.owner(), key, to, nil))
}

func (p *purse) read() budget.Record {
	p.Helper()
	r, err := p.processes[1].Read(p.Context(), p.tenant)
	require.NoError(p, err)
	return r
}

// tokens returns what is used and reserved of the tenant's tokens.
func (p *purse) tokens() [2]int64 {
	p.Helper()
	b := p.read().Tenant.Budgets[budget.ModelTokens]
	return [2]int64{b.Used, b.Reserved}
}

func (p *purse) reserve(process int, key *uuid.UUID, most budget.Amount) (budget.Reservation, error) {
	return p.processes[process].Reserve(p.Context(), p.tenant, key, most)
}

func (p *purse) taken(key *uuid.UUID, most budget.Amount) budget.Reservation {
	p.Helper()
	r, err := p.reserve(0, key, most)
	require.NoError(p, err)
	return r
}

func TestBudgetsAreSetAndRead(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	first := p.read()
	require.Equal(t, 202611, first.Month)
	require.Equal(t, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), first.ResetsAt)
	require.Empty(t, first.Tenant.Budgets)
	require.Empty(t, first.Keys)

	p.set(nil, budget.Limits{ModelTokens: new(int64(100)), WriteCalls: new(int64(5))})
	p.set(&p.key, budget.Limits{MoneyMicros: new(int64(7))})
	got := p.read()
	require.Equal(t, budget.Limits{ModelTokens: new(int64(100)), WriteCalls: new(int64(5))}, got.Tenant.Limits())
	require.Len(t, got.Keys, 1)
	require.Equal(t, p.key, *got.Keys[0].KeyID)
	require.Equal(t, budget.Limits{MoneyMicros: new(int64(7))}, got.Keys[0].Limits())

	p.set(nil, budget.Limits{ModelTokens: new(int64(budget.Most))})
	require.Equal(t, budget.Limits{ModelTokens: new(int64(budget.Most))}, p.read().Tenant.Limits())
	records := p.texts(`SELECT subject_type || ' ' || details FROM audit_records WHERE action = 'budgets.updated' AND tenant_id = $1 ORDER BY id`, p.tenant)
	require.Len(t, records, 3)
	require.JSONEq(t, `{"after":{"model_tokens":9007199254740991,"money_micros":null,"write_calls":null},"before":{"model_tokens":100,"money_micros":null,"write_calls":5}}`,
		records[2][len("tenant "):])
	require.Contains(t, records[1], "api_key ")
}

func TestBudgetsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	other := uuid.New()
	one := budget.Limits{WriteCalls: new(int64(1))}
	three := budget.Limits{ModelTokens: new(int64(1)), MoneyMicros: new(int64(1)), WriteCalls: new(int64(1))}
	for name, tc := range map[string]struct {
		key  *uuid.UUID
		to   budget.Limits
		code fault.Code
	}{
		"zero":            {nil, budget.Limits{WriteCalls: new(int64(0))}, fault.CodeValidation},
		"too many":        {nil, budget.Limits{MoneyMicros: new(int64(budget.Most + 1))}, fault.CodeValidation},
		"an unknown key":  {&other, one, fault.CodeAPIKeyNotFound},
		"nothing for one": {&other, budget.Limits{}, fault.CodeAPIKeyNotFound},
	} {
		err := p.processes[0].Set(t.Context(), p.owner(), tc.key, tc.to, nil)
		require.True(t, fault.HasCode(err, tc.code), "%s: %v", name, err)
	}
	p.set(nil, three)
	err := p.processes[0].Set(t.Context(), p.owner(), &p.key, three, nil)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
	p.set(&p.key, one)

	// Of a revoked key a budget can be removed, and none can be set.
	p.exec(`UPDATE api_keys SET revoked_at = now() WHERE id = $1`, p.key)
	err = p.processes[0].Set(t.Context(), p.owner(), &p.key, one, nil)
	require.True(t, fault.HasCode(err, fault.CodeAPIKeyNotFound), "%v", err)
	p.set(&p.key, budget.Limits{})
	require.Empty(t, p.read().Keys)

	var asked budget.Limits
	err = p.processes[0].Set(t.Context(), p.owner(), nil, one, func(was budget.Record) error {
		asked = was.Tenant.Limits()
		return fault.New(fault.CodePreconditionFailed, "")
	})
	require.True(t, fault.HasCode(err, fault.CodePreconditionFailed))
	require.Equal(t, three, asked)
	require.Equal(t, three, p.read().Tenant.Limits())
}

func TestTenantWithoutBudgetsReservesNothing(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	r := p.taken(&p.key, budget.Amount{Tokens: budget.Most, Money: budget.Most})
	require.Equal(t, uuid.Nil, r.ID)
	require.NoError(t, r.Settle(t.Context(), budget.Amount{Tokens: 1}))
	require.NoError(t, r.Release(t.Context()))
	require.Empty(t, p.texts(`SELECT 'x' FROM budget_reservations UNION ALL SELECT 'x' FROM budget_counters`))
	_, err := p.reserve(0, nil, budget.Amount{Tokens: -1})
	require.Error(t, err)
}

func TestReservationIsSettledOnce(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.set(nil, budget.Limits{ModelTokens: new(int64(100)), MoneyMicros: new(int64(50))})
	p.set(&p.key, budget.Limits{ModelTokens: new(int64(60))})
	r := p.taken(&p.key, budget.Amount{Tokens: 40, Money: 20})
	require.Equal(t, [2]int64{0, 40}, p.tokens())
	for range 2 {
		require.NoError(t, r.Settle(t.Context(), budget.Amount{Tokens: 30, Money: 5}))
	}
	require.NoError(t, r.Release(t.Context()))
	got := p.read()
	require.Equal(t, [2]int64{30, 0}, p.tokens())
	require.EqualValues(t, 5, got.Tenant.Budgets[budget.MoneyMicros].Used)
	require.EqualValues(t, 30, got.Keys[0].Budgets[budget.ModelTokens].Used)

	released := p.taken(&p.key, budget.Amount{Tokens: 30})
	require.NoError(t, released.Release(t.Context()))
	require.NoError(t, released.Settle(t.Context(), budget.Amount{Tokens: 30}))
	require.Equal(t, [2]int64{30, 0}, p.tokens())

	// The key's budget has no room: nothing is taken of the tenant's.
	_, err := p.reserve(1, &p.key, budget.Amount{Tokens: 31, Money: 1})
	require.True(t, fault.HasCode(err, fault.CodeBudgetExceeded), "%v", err)
	require.Contains(t, fault.As(err).Message, "model tokens of this API key")
	require.Equal(t, time.Second, fault.As(err).RetryAfter, "the month ends in a second")
	require.Equal(t, [2]int64{30, 0}, p.tokens())
	require.Zero(t, p.read().Tenant.Budgets[budget.MoneyMicros].Reserved)
	// The tenant's has none: nothing stays taken of the key's.
	_, err = p.reserve(1, &p.key, budget.Amount{Tokens: 1, Money: 46})
	require.True(t, fault.HasCode(err, fault.CodeBudgetExceeded), "%v", err)
	require.Contains(t, fault.As(err).Message, "money of this tenant")
	require.Zero(t, p.read().Keys[0].Budgets[budget.ModelTokens].Reserved)
	require.Equal(t, budget.Exhausted, p.read().Tenant.Budgets[budget.MoneyMicros].State, "a call did not fit")
}

// What is taken by calls under way may be given back, so the wait is short and the budget is not used up.
func TestBudgetThatIsOnlyReservedIsNotUsedUp(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.set(nil, budget.Limits{ModelTokens: new(int64(100))})
	r := p.taken(nil, budget.Amount{Tokens: 100})
	_, err := p.reserve(1, nil, budget.Amount{Tokens: 1})
	require.True(t, fault.HasCode(err, fault.CodeBudgetExceeded), "%v", err)
	require.Equal(t, 10*time.Second, fault.As(err).RetryAfter)
	require.Equal(t, budget.OK, p.read().State())
	require.NoError(t, r.Settle(t.Context(), budget.Amount{Tokens: 80}))
	require.Equal(t, budget.Warning, p.read().State())
	over := p.taken(nil, budget.Amount{Tokens: 20})
	require.NoError(t, over.Settle(t.Context(), budget.Amount{Tokens: 21}), "what was used counts, also above the limit")
	require.Equal(t, [2]int64{101, 0}, p.tokens())
	for key, want := range map[*uuid.UUID]budget.State{nil: budget.Exhausted, &p.key: budget.Exhausted} {
		state, err := p.processes[0].State(t.Context(), p.tenant, key)
		require.NoError(t, err)
		require.Equal(t, want, state)
	}
	p.set(nil, budget.Limits{ModelTokens: new(int64(1000))})
	require.Equal(t, budget.OK, p.read().State())
	p.taken(nil, budget.Amount{Tokens: 899})
	_, err = p.reserve(1, nil, budget.Amount{Tokens: 1})
	require.Error(t, err)
}

// 64 racers over two processes, round after round: at no time is more used and reserved than
// the budget has, and in the end nothing is left that fits.
func TestRacersNeverReserveMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	const limit, most = 2000, 10
	p.set(nil, budget.Limits{ModelTokens: new(int64(limit))})
	p.set(&p.key, budget.Limits{MoneyMicros: new(int64(limit * 10))})
	var spent, refused atomic.Int64
	var racers sync.WaitGroup
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if got := p.tokens(); got[0]+got[1] > limit {
					p.Errorf("%v of %d", got, limit)
				}
			}
		}
	})
	for i := range 64 {
		racers.Go(func() {
			for {
				r, err := p.reserve(i%2, &p.key, budget.Amount{Tokens: most, Money: 1})
				if fault.HasCode(err, fault.CodeBudgetExceeded) {
					if refused.Add(1); fault.As(err).RetryAfter == 10*time.Second {
						continue // others may give back
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				used := rand.Int64N(most + 1)
				if used == 0 {
					err = r.Release(t.Context())
				} else {
					err = r.Settle(t.Context(), budget.Amount{Tokens: used, Money: 1})
				}
				spent.Add(used)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	racers.Wait()
	close(stop)
	watcher.Wait()
	require.Equal(t, [2]int64{spent.Load(), 0}, p.tokens())
	require.LessOrEqual(t, spent.Load(), int64(limit))
	require.Greater(t, spent.Load(), int64(limit-most), "refused while there was room")
	require.GreaterOrEqual(t, refused.Load(), int64(64))
}

func TestReservationOfACrashedWorkerIsGivenBack(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.setClock(time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC))
	p.set(nil, budget.Limits{ModelTokens: new(int64(100))})
	crashed := p.taken(nil, budget.Amount{Tokens: 10})
	slow := func() error { return crashed.Settle(t.Context(), budget.Amount{Tokens: 5}) }
	for _, step := range []struct {
		at   time.Duration
		want [2]int64
	}{{59 * time.Second, [2]int64{0, 10}}, {60 * time.Second, [2]int64{0, 0}}} {
		p.setClock(time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC).Add(step.at))
		var sweepers sync.WaitGroup
		for i := range 4 {
			sweepers.Go(func() {
				if err := p.processes[i%2].Lapse(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		sweepers.Wait()
		require.Equal(t, step.want, p.tokens(), step.at)
	}
	r := p.taken(nil, budget.Amount{Tokens: 50})
	require.NoError(t, slow(), "it was slow and not dead: what it used counts, once")
	require.NoError(t, slow())
	require.Equal(t, [2]int64{5, 50}, p.tokens())
	require.NoError(t, r.Settle(t.Context(), budget.Amount{Tokens: 50}))
	require.Equal(t, [2]int64{55, 0}, p.tokens())
}

func TestReservationOfAKilledProcessIsGivenBack(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	at := time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)
	p.setClock(at)
	p.set(nil, budget.Limits{ModelTokens: new(int64(100))})
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), "TEST_RESERVES_AT="+p.AppURL, "TEST_TENANT="+p.tenant.String())
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "reserved\n", line)
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	require.Equal(t, [2]int64{0, 100}, p.tokens())
	_, err = p.reserve(0, nil, budget.Amount{Tokens: 1})
	require.True(t, fault.HasCode(err, fault.CodeBudgetExceeded), "%v", err)
	p.setClock(at.Add(time.Minute))
	require.NoError(t, p.processes[1].Lapse(t.Context()))
	require.Equal(t, [2]int64{0, 0}, p.tokens())
	p.taken(nil, budget.Amount{Tokens: 100})
}

func TestMonthBeginsWithTheWholeBudget(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.set(nil, budget.Limits{ModelTokens: new(int64(100))})
	december := p.taken(nil, budget.Amount{Tokens: 100})
	_, err := p.reserve(1, nil, budget.Amount{Tokens: 1})
	require.True(t, fault.HasCode(err, fault.CodeBudgetExceeded))
	p.setClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	next := p.taken(nil, budget.Amount{Tokens: 100})
	require.NoError(t, december.Settle(t.Context(), budget.Amount{Tokens: 90}))
	got := p.read()
	require.Equal(t, 202612, got.Month)
	require.Equal(t, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), got.ResetsAt)
	require.Equal(t, [2]int64{0, 100}, p.tokens(), "it was used in November")
	require.NoError(t, next.Settle(t.Context(), budget.Amount{Tokens: 1}))
	require.Equal(t, []string{"202611 90", "202612 1"}, p.texts(`SELECT month || ' ' || used FROM budget_counters ORDER BY month`))

	// What was passed in the last moment of a month is still told, and only that.
	require.NoError(t, p.processes[0].Tell(t.Context()))
	require.Len(t, p.told("budget.warning"), 1)
	require.Equal(t, "2026-11", p.told("budget.warning")[0].Month)

	p.setClock(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC))
	require.NoError(t, p.processes[0].Forget(t.Context()))
	require.Len(t, p.texts(`SELECT 'x' FROM budget_counters`), 2)
	require.Empty(t, p.texts(`SELECT 'x' FROM budget_reservations`))
	p.setClock(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, p.processes[0].Forget(t.Context()))
	require.Equal(t, []string{"202612"}, p.texts(`SELECT month::text FROM budget_counters`))
}

// told is an event about a budget.
type told struct {
	Measure     string
	APIKeyID    string `json:"api_key_id"`
	Month       string
	Limit, Used int64
	ResetsAt    time.Time `json:"resets_at"`
}

func (p *purse) told(kind string) (out []told) {
	p.Helper()
	for _, body := range p.texts(`SELECT body::text FROM events WHERE type = $1 AND tenant_id = $2 ORDER BY body::text`, kind, p.tenant) {
		var e told
		require.NoError(p, json.Unmarshal([]byte(body), &e))
		out = append(out, e)
	}
	return out
}

// Many calls pass the marks at once, while both processes look for what is to be told.
func TestTenantIsToldOnceOfEachBudget(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.set(nil, budget.Limits{ModelTokens: new(int64(100))})
	p.set(&p.key, budget.Limits{ModelTokens: new(int64(500))})
	spend := func(n int) {
		var racers sync.WaitGroup
		for i := range n {
			racers.Go(func() {
				r, err := p.reserve(i%2, &p.key, budget.Amount{Tokens: 1})
				if err == nil {
					err = r.Settle(t.Context(), budget.Amount{Tokens: 1})
				}
				if err != nil && !fault.HasCode(err, fault.CodeBudgetExceeded) {
					t.Error(err)
				}
				if err := p.processes[i%2].Tell(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		racers.Wait()
		require.NoError(t, p.processes[0].Tell(t.Context()))
	}
	spend(79)
	require.Empty(t, p.told("budget.warning"))
	spend(1)
	require.Equal(t, []told{{Measure: "model_tokens", Month: "2026-11", Limit: 100, Used: 80, ResetsAt: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}}, p.told("budget.warning"))
	require.Empty(t, p.told("budget.exhausted"))
	spend(64)
	require.Len(t, p.told("budget.warning"), 1)
	require.Len(t, p.told("budget.exhausted"), 1)
	require.Equal(t, [2]int64{100, 0}, p.tokens())

	// A higher limit in the same month: the tenant was told.
	p.set(nil, budget.Limits{ModelTokens: new(int64(125))})
	spend(64)
	require.Equal(t, [2]int64{125, 0}, p.tokens())
	require.Len(t, p.told("budget.warning"), 1)
	require.Len(t, p.told("budget.exhausted"), 1)
	p.setClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	spend(126)
	require.Len(t, p.told("budget.warning"), 2)
	require.Len(t, p.told("budget.exhausted"), 2)
	p.set(&p.key, budget.Limits{ModelTokens: new(int64(100))})
	spend(1)
	require.Equal(t, p.key.String(), p.told("budget.exhausted")[0].APIKeyID+p.told("budget.exhausted")[2].APIKeyID)
}
