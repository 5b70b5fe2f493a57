package quota_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/quota"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// openMaps are the executions of a tenant that have not ended.
type openMaps struct {
	t      *testing.T
	admin  *pgx.Conn
	pool   *db.Pool
	tenant uuid.UUID
}

func newOpenMaps(t *testing.T) openMaps {
	t.Helper()
	d := testkit.Database(t)
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(t.Context()) })
	return openMaps{t: t, admin: admin, pool: d.Pool}.another()
}

// another returns those of another tenant.
func (o openMaps) another() openMaps {
	o.t.Helper()
	o.tenant = uuid.New()
	o.exec("INSERT INTO tenants (id, name) VALUES ($1, 'x')", o.tenant)
	return o
}

func (o openMaps) exec(sql string, args ...any) {
	o.t.Helper()
	_, err := o.admin.Exec(o.t.Context(), sql, args...)
	require.NoError(o.t, err)
}

// add adds n of them, whatever the quota is.
func (o openMaps) add(n int) {
	o.t.Helper()
	o.exec(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		SELECT gen_random_uuid(), $1, gen_random_uuid()::text, $1, 1, 'x', false, '', '', '{}', 'key', '', '', '', now() FROM generate_series(1, $2)`, o.tenant, n)
}

// end ends n of them.
func (o openMaps) end(n int) {
	o.t.Helper()
	o.exec(`DELETE FROM map_executions WHERE id IN (SELECT id FROM map_executions WHERE tenant_id = $1 LIMIT $2)`, o.tenant, n)
}

// create makes a batch with the check, and reports whether it counts.
func (o openMaps) create(room *quota.Room) (counts bool, err error) {
	o.t.Helper()
	b := &db.Batch{}
	counted := room.Queue(b, o.tenant)
	if b.Len() == 0 {
		return false, nil
	}
	if err = o.pool.Send(o.t.Context(), o.tenant, b); err == nil {
		counted()
	}
	return true, err
}

func TestRoomCountsTenantsFarBelowTheirLimitNowAndThen(t *testing.T) {
	t.Parallel()
	limits, err := quota.New(map[string]int64{"map_executions": 160})
	require.NoError(t, err)
	tenants := newOpenMaps(t)
	for name, c := range map[string]struct {
		open  int
		after time.Duration // between two creations
		want  []bool        // which of the creations count
	}{
		"nothing is open":      {open: 0, want: []bool{true, false, false, false, false, false, false, false, false, false, false, true}},
		"much is open":         {open: 112, want: []bool{true, false, false, false, true, false, false, false, true}},
		"the limit is near":    {open: 145, want: []bool{true, true, true}},
		"a second later":       {after: 1001 * time.Millisecond, want: []bool{true, true}},
		"less than that later": {after: 400 * time.Millisecond, want: []bool{true, false, false, true}},
	} {
		o, now := tenants.another(), time.Now()
		o.add(c.open)
		room := limits.Room(quota.MapExecutions, func() time.Time { return now })
		for i, want := range c.want {
			counts, err := o.create(room)
			require.NoError(t, err, name)
			require.Equal(t, want, counts, "%s: %d", name, i)
			now = now.Add(c.after)
		}
	}
}

func TestRoomCountsNowAndThenNearALargeLimit(t *testing.T) {
	t.Parallel()
	limits, err := quota.New(map[string]int64{"map_executions": 4000})
	require.NoError(t, err)
	o, now := newOpenMaps(t), time.Now()
	room := limits.Room(quota.MapExecutions, func() time.Time { return now })
	o.add(3997)
	for _, want := range []bool{true, false, false, true} {
		counts, err := o.create(room)
		require.NoError(t, err)
		require.Equal(t, want, counts)
	}
	o.add(4)
	now = now.Add(1001 * time.Millisecond)
	_, err = o.create(room)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), err)
}

func TestRoomIsExactAtTheLimit(t *testing.T) {
	t.Parallel()
	limits, err := quota.New(map[string]int64{"map_executions": 160})
	require.NoError(t, err)
	o := newOpenMaps(t)
	room := limits.Room(quota.MapExecutions, time.Now)
	o.add(160)
	_, err = o.create(room)
	require.NoError(t, err)
	o.add(1)
	for range 2 {
		_, err = o.create(room)
		require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), err)
	}
	o.end(1)
	counts, err := o.create(room)
	require.NoError(t, err)
	require.True(t, counts)
}
