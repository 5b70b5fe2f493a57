package audit_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/audit"
)

func TestRecordsAreSealedInBatches(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{Batch: 10})
	tenant := a.tenant(t)
	for range 7 {
		a.append(t, tenant, 5)
	}
	a.append(t, tenant, 40) // one transaction, larger than a batch
	a.sealDue(t, tenant)
	a.valid(t, tenant, 75)
	a.sealDue(t, tenant)
	a.valid(t, tenant, 75)
}

// What commits late is sealed late, and keeps what came after it waiting: nothing is
// passed over.
func TestATransactionThatCommitsLateIsNotPassedOver(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	hasty := a.over(t, audit.Config{SettleWait: time.Millisecond}, a.seed)
	tenant := a.tenant(t)
	a.append(t, tenant, 2)
	require.NoError(t, a.Seal(t.Context(), tenant))
	require.NoError(t, a.db.InTenant(t.Context(), tenant, func(late pgx.Tx) error {
		require.NoError(t, audit.Append(t.Context(), late, record(tenant, "late")))
		a.append(t, tenant, 3)
		require.NoError(t, hasty.Seal(t.Context(), tenant))
		report, err := a.Verify(t.Context(), tenant)
		require.NoError(t, err)
		require.Nil(t, report.First)
		require.Equal(t, []int64{5, 2, 3}, []int64{report.Records, report.Sealed, report.Unsealed})
		return nil
	}))
	require.NoError(t, a.Seal(t.Context(), tenant))
	a.valid(t, tenant, 6)
}

// An export has every record that was committed when it was asked for, although a
// transaction was under way.
func TestSealingWaitsForTransactionsUnderWay(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	began, done := make(chan struct{}), make(chan error, 1)
	release := make(chan struct{})
	go func() {
		done <- a.db.InTenant(context.Background(), tenant, func(tx pgx.Tx) error {
			err := audit.Append(context.Background(), tx, record(tenant, "slow"))
			close(began)
			<-release
			return err
		})
	}()
	<-began
	a.append(t, tenant, 1)
	sealed := make(chan error, 1)
	go func() { sealed <- a.Seal(context.Background(), tenant) }()
	// It has looked once, and is not done.
	admin := a.admin(t)
	require.Eventually(t, func() bool {
		var entered int
		require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(*) FROM audit_clusters`).Scan(&entered))
		return entered > 0
	}, time.Minute, time.Millisecond)
	require.Empty(t, sealed)
	close(release)
	require.NoError(t, <-done)
	require.NoError(t, <-sealed)
	a.valid(t, tenant, 2)
}

// Many writers, some of whose transactions commit late or not at all, and two sealers
// at work all the while.
func TestSealingUnderConcurrentWriters(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{Batch: 7})
	tenants := []uuid.UUID{a.tenant(t), a.tenant(t)}
	stop := make(chan struct{})
	var sealers, writers sync.WaitGroup
	for range 2 {
		process := a.over(t, audit.Config{Batch: 7}, a.seed)
		sealers.Go(func() {
			for {
				if err := process.SealDue(context.Background()); err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var mu sync.Mutex
	committed := map[uuid.UUID]int64{}
	for w := range 6 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range 40 {
				tenant := tenants[random.IntN(len(tenants))]
				n, undo := int64(1+random.IntN(4)), random.IntN(4) == 0
				err := a.db.InTenant(context.Background(), tenant, func(tx pgx.Tx) error {
					for range n {
						if err := audit.Append(context.Background(), tx, record(tenant, "run.executed")); err != nil {
							return err
						}
						if _, err := tx.Exec(context.Background(), "SELECT pg_sleep($1)", random.Float64()/200); err != nil {
							return err
						}
					}
					if undo {
						return context.Canceled
					}
					return nil
				})
				if undo {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				committed[tenant] += n
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	close(stop)
	sealers.Wait()
	for _, tenant := range tenants {
		require.NoError(t, a.Seal(t.Context(), tenant))
		require.NotZero(t, committed[tenant])
		a.valid(t, tenant, committed[tenant])
	}
}

// A dump that is restored elsewhere: the xids of its records mean nothing there.
func TestADumpRestoredInAnotherCluster(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]int64{"whose xids are behind": 1 << 40, "whose xids are ahead": -600} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTrail(t, audit.Config{Batch: 3})
			tenant := a.tenant(t)
			for range 5 {
				a.append(t, tenant, 2)
			}
			require.NoError(t, a.Seal(t.Context(), tenant))
			a.append(t, tenant, 2) // in the dump without seals
			admin := a.admin(t)
			exec(t, admin, `UPDATE audit_records SET xid = (greatest(xid::text::bigint + $1, 3))::text::xid8`, ahead)
			exec(t, admin, `UPDATE audit_seals s SET xid = r.xid FROM audit_records r WHERE r.id = s.record_id`)
			exec(t, admin, `UPDATE audit_clusters SET cluster = 42`)

			a.append(t, tenant, 4)
			a.sealDue(t, tenant)
			a.valid(t, tenant, 16)
			a.append(t, tenant, 4)
			require.NoError(t, a.Seal(t.Context(), tenant))
			a.valid(t, tenant, 20)
			var entries int
			require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(*) FROM audit_clusters`).Scan(&entries))
			require.Equal(t, 2, entries, "the cluster is entered once")
		})
	}
}

// The same where nothing had been sealed when the dump was made, and where xids went
// back within a cluster.
func TestXidsThatAreAhead(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"before the first seal": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTrail(t, audit.Config{Batch: 3})
			tenant := a.tenant(t)
			a.append(t, tenant, 5)
			if sealed {
				require.NoError(t, a.Seal(t.Context(), tenant))
			}
			admin := a.admin(t)
			exec(t, admin, `UPDATE audit_records SET xid = '1099511627776'`)
			if sealed {
				exec(t, admin, `UPDATE audit_seals SET xid = '1099511627776'`)
			}
			for n := range int64(3) {
				a.append(t, tenant, 2)
				a.sealDue(t, tenant)
				a.valid(t, tenant, 5+2*(n+1))
			}
		})
	}
}

func TestTheAuditTablesAreInsertOnly(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	a.append(t, tenant, 3)
	a.sealDue(t, tenant)
	admin := a.admin(t)
	for _, table := range []string{"audit_records", "audit_seals", "audit_checkpoints", "audit_clusters"} {
		var rows int
		require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&rows))
		require.NotZero(t, rows, table)
		for _, statement := range []string{
			"UPDATE " + table + " SET tenant_id = tenant_id", "DELETE FROM " + table, "TRUNCATE " + table,
		} {
			_, err := admin.Exec(t.Context(), statement)
			require.ErrorContains(t, err, table+" is insert-only", "a superuser: %s", statement)
			_, err = a.db.Tenant(tenant).Exec(t.Context(), statement)
			require.ErrorContains(t, err, "permission denied", "the service: %s", statement)
		}
	}
	// Neither when nor in which transaction is the service's to say.
	for _, column := range []string{"at", "xid"} {
		_, err := a.db.Tenant(tenant).Exec(t.Context(),
			`INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, `+column+`) VALUES ($1, $2, 'key', '', '', DEFAULT)`, uuid.New(), tenant)
		require.ErrorContains(t, err, "permission denied", column)
	}
	a.valid(t, tenant, 3)
}

func TestCheckpointsAreHourly(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant, idle := a.tenant(t), a.tenant(t)
	checkpoints := func() int64 {
		report, err := a.Verify(t.Context(), tenant)
		require.NoError(t, err)
		require.Nil(t, report.First)
		return report.Checkpoints
	}
	a.append(t, tenant, 1)
	a.append(t, idle, 1)
	a.sealDue(t, tenant)
	require.Equal(t, int64(1), checkpoints(), "a chain's first seals are signed at once")
	a.append(t, tenant, 1)
	a.clock.advance(time.Hour - time.Second)
	a.sealDue(t, tenant)
	require.Equal(t, int64(1), checkpoints())
	a.clock.advance(time.Second)
	require.NoError(t, a.SealDue(t.Context()), "nothing is left to seal")
	require.Equal(t, int64(2), checkpoints())
	a.clock.advance(5 * time.Hour)
	a.sealDue(t, tenant)
	require.Equal(t, int64(2), checkpoints(), "a chain that has not grown needs no new one")
	var signed int
	require.NoError(t, a.admin(t).QueryRow(t.Context(), `SELECT count(*) FROM audit_checkpoints WHERE tenant_id = $1`, idle).Scan(&signed))
	require.Equal(t, 1, signed)
}
