package audit_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/audit"
)

func TestPassWithoutNewRecordsLooksAtNoTenant(t *testing.T) {
	t.Parallel()
	tr := newTrail(t, audit.Config{})
	pool, reads := testkit.Watched(t, tr.db)
	tr.db.Pool = pool
	tr.Trail = tr.over(t, audit.Config{}, tr.seed)
	tenant := tr.tenant(t)
	for range 20 {
		tr.append(t, tr.tenant(t), 1)
	}
	tr.append(t, tenant, 1)
	tr.sealDue(t, tenant)
	require.NoError(t, tr.SealDue(t.Context()))
	require.Contains(t, reads.Last(), "name: AuditAppended ")

	tr.append(t, tenant, 1)
	tr.sealDue(t, tenant)
	tr.valid(t, tenant, 2)

	// A checkpoint of the second record is due, and a look at all tenants with it.
	tr.clock.advance(time.Hour)
	require.NoError(t, tr.SealDue(t.Context()))
	report, err := tr.Verify(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Checkpoints)
	require.NoError(t, tr.SealDue(t.Context()))
	require.Contains(t, reads.Last(), "name: AuditAppended ")
}

func TestRecordsThatAnotherSealerKeptAreSealedLater(t *testing.T) {
	t.Parallel()
	tr := newTrail(t, audit.Config{})
	tenant := tr.tenant(t)
	tr.append(t, tenant, 1)
	tr.sealDue(t, tenant)
	admin, err := pgx.Connect(t.Context(), tr.db.AdminURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	lock := func(does string) {
		_, err := admin.Exec(t.Context(), "SELECT "+does+"(hashtextextended('audit_chain:' || $1::text, 0))", tenant.String())
		require.NoError(t, err)
	}
	lock("pg_advisory_lock")
	tr.append(t, tenant, 1)
	// Until the pass has seen the record: transactions of other tests may delay it.
	require.Eventually(t, func() bool {
		var complete bool
		require.NoError(t, tr.SealDue(t.Context()))
		require.NoError(t, admin.QueryRow(t.Context(), "SELECT bool_and(xid < pg_snapshot_xmin(pg_current_snapshot())) FROM audit_records WHERE tenant_id = $1", tenant).Scan(&complete))
		return complete
	}, time.Minute, time.Millisecond)
	require.NoError(t, tr.SealDue(t.Context()))
	report, err := tr.Verify(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Unsealed)
	lock("pg_advisory_unlock")
	require.NoError(t, tr.SealDue(t.Context()))
	tr.valid(t, tenant, 2)
}
