package conversation

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// turn writes a message with a session of its own. Its workflow has its id.
func (d *desk) turn(tenant uuid.UUID, customer *uuid.UUID, state State, at time.Time) flow.TurnRef {
	d.t.Helper()
	ref := flow.TurnRef{TenantID: tenant, ID: uuid.Must(uuid.NewV7())}
	key, err := d.d.Keys.Key(d.t.Context(), tenant)
	require.NoError(d.t, err)
	message := key.Seal(datakey.Place{Tenant: tenant, Row: ref.ID, Field: datakey.TurnMessage}, []byte("Hello"))
	_, err = d.db.Tenant(tenant).Exec(d.t.Context(), `WITH c AS (INSERT INTO conversations (tenant_id, id, agent_id, session_id, customer, created_at, updated_at) VALUES ($1, $2::uuid, $2::uuid, $2::uuid::text, $3, $5, $5))
		INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr, workflow_id, customer, updated_at, finished_at)
		VALUES ($1, $2::uuid, 'exec_' || $2::uuid::text, $2::uuid, 1, $2::uuid, $4::text, 'running', '', $6, '{}', '', '', $2::uuid::text, $3, $5, CASE WHEN $4::text = 'ended' THEN $5::timestamptz END)`,
		tenant, ref.ID, customer, state, at, message)
	require.NoError(d.t, err)
	return ref
}

// Messages that wait for people are asked about less and less often. Those of one tenant keep the
// sweeper from no other one, and one that changes is looked at again soon.
func TestSweeperAsksLessAndLessAboutMessagesThatWait(t *testing.T) {
	t.Parallel()
	const waiting = 120
	d := newDesk(t)
	written := d.now
	var last flow.TurnRef
	for range waiting {
		last = d.turn(d.tenant, nil, Waiting, written)
	}
	other := uuid.Must(uuid.NewV7())
	_, err := d.db.Tenant(other).Exec(t.Context(), "INSERT INTO tenants (id, name) VALUES ($1, 'other')", other)
	require.NoError(t, err)
	d.engine.unknown[d.turn(other, nil, Working, written).ID.String()] = true

	d.now = written.Add(sweepAfter + time.Second)
	require.NoError(t, d.Sweep(t.Context()))
	started, asked, nudged := d.engine.took()
	require.Equal(t, []int{1, sweepPerTenant + 1, 0}, []int{started, asked, nudged})
	_, err = d.db.Tenant(other).Exec(t.Context(), "UPDATE turns SET state = 'ended', finished_at = now()")
	require.NoError(t, err)

	total := 0
	pass := func() (asked int) {
		t.Helper()
		d.now = d.now.Add(SweepEvery)
		require.NoError(t, d.Sweep(t.Context()))
		_, asked, nudged := d.engine.took()
		require.Zero(t, nudged)
		total += asked
		return asked
	}
	for range int(time.Hour / SweepEvery) {
		require.LessOrEqual(t, pass(), sweepPerTenant)
	}
	require.Less(t, total, 8*waiting, "less and less often")
	require.Greater(t, total, 5*waiting, "but again and again")

	// One that is cancelled is told, also where the first message was lost.
	turn, err := d.read(t.Context(), last)
	require.NoError(t, err)
	_, err = d.Cancel(t.Context(), turn.Starter(), turn)
	require.NoError(t, err)
	d.engine.took()
	for nudged := 0; nudged == 0; {
		d.now = d.now.Add(sweepAfter)
		require.Less(t, d.now.Sub(turn.UpdatedAt), 4*time.Hour)
		require.NoError(t, d.Sweep(t.Context()))
		_, _, nudged = d.engine.took()
	}

	// One whose workflow was terminated ends.
	d.engine.closed[last.ID.String()] = true
	d.now = d.now.Add(2 * workMost)
	for d.number("SELECT count(*) FROM turns WHERE tenant_id = $1 AND status = 'cancelled'", d.tenant) == 0 {
		d.now = d.now.Add(SweepEvery)
		require.Less(t, d.now.Sub(turn.UpdatedAt), 6*time.Hour)
		require.NoError(t, d.Sweep(t.Context()))
	}
}

// A message has ended, and its session is deleted before the caller is answered: that is no fault of ours.
func TestMessageOfASessionThatIsDeletedMeanwhileIsNotFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ref := d.turn(d.tenant, nil, Working, d.now)
	turn, err := d.read(t.Context(), ref)
	require.NoError(t, err)
	d.exec("DELETE FROM turns WHERE id = $1", ref.ID)
	_, err = d.Await(t.Context(), turn, time.Now())
	require.True(t, fault.HasCode(err, fault.CodeExecutionNotFound), "%v", err)
}
