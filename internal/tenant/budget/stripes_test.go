package budget_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/tenant/budget"
)

// write counts a write in the tenant's budget, as the move to sending does.
func (p *purse) write(tx dbsqlc.DBTX, id string) (counted bool, err error) {
	err = tx.QueryRow(p.Context(), `SELECT spend_budget($1, $2, budget_month())`, p.tenant, id).Scan(&counted)
	return counted, err
}

// A large budget has stripes. Racers never take more than all have together, and no less.
func TestStripesAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.set(nil, budget.Limits{WriteCalls: new(int64(20_011))})
	id := p.texts(`SELECT id::text FROM budgets`)[0]
	pool, err := db.Open(t.Context(), db.Config{URL: p.AppURL})
	require.NoError(t, err)
	defer pool.Close()
	race := func(n int) (admitted int64) {
		var racers sync.WaitGroup
		var count atomic.Int64
		for i := range n {
			racers.Go(func() {
				on := []*db.Pool{p.Pool, pool}[i%2]
				counted, err := p.write(on.Tenant(p.tenant), id)
				if err != nil {
					t.Error(err)
				}
				if counted {
					count.Add(1)
				}
			})
		}
		racers.Wait()
		return count.Load()
	}
	require.EqualValues(t, 1, race(1))
	require.Equal(t, []string{"16 20011"}, p.texts(`SELECT count(*) || ' ' || sum(share) FROM budget_counters`))
	p.exec(`UPDATE budget_counters SET used = share - 1 - stripe % 2`)
	require.EqualValues(t, 24, race(64))
	require.Zero(t, race(3))
	require.Equal(t, budget.Exhausted, p.read().State())

	// More than before is divided among the stripes, and less than is used leaves no room.
	used := int64(20_011)
	for _, limit := range []int64{used + 21, used + 10, used + 50, used + 33} {
		p.set(nil, budget.Limits{WriteCalls: &limit})
		require.Equal(t, []string{"16"}, p.texts(`SELECT count(*)::text FROM budget_counters`))
		require.Equal(t, max(0, limit-used), race(64))
		used = max(used, limit)
		require.Equal(t, used, p.read().Tenant.Budgets[budget.WriteCalls].Used)
	}
	small := newPurse(t)
	small.set(nil, budget.Limits{WriteCalls: new(int64(999))})
	_, err = small.write(small.Tenant(small.tenant), small.texts(`SELECT id::text FROM budgets`)[0])
	require.NoError(t, err)
	small.set(nil, budget.Limits{WriteCalls: new(int64(99_999))})
	require.Equal(t, []string{"16 99999 1"}, small.texts(`SELECT count(*) || ' ' || sum(share) || ' ' || sum(used) FROM budget_counters`))
}

// The stripes are told of together: each may be full before the budget is.
func TestTenantIsToldOfStripesTogether(t *testing.T) {
	t.Parallel()
	p := newPurse(t)
	p.set(nil, budget.Limits{WriteCalls: new(int64(2000))})
	_, err := p.write(p.Tenant(p.tenant), p.texts(`SELECT id::text FROM budgets`)[0])
	require.NoError(t, err)
	for _, step := range []struct {
		used                [2]int64
		warnings, exhausted int
	}{{[2]int64{1000, 599}, 0, 0}, {[2]int64{1000, 600}, 1, 0}, {[2]int64{1000, 999}, 1, 0}, {[2]int64{1000, 1000}, 1, 1}} {
		p.exec(`UPDATE budget_counters SET used = ($1::bigint[])[stripe + 1], level = budget_level(($1::bigint[])[stripe + 1], share)`, step.used[:])
		require.NoError(t, p.processes[0].Tell(t.Context()))
		require.Len(t, p.told("budget.warning"), step.warnings, step)
		require.Len(t, p.told("budget.exhausted"), step.exhausted, step)
	}
}
