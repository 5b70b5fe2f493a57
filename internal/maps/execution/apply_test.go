package execution_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/maps/execution"
)

// applying is an execution of whose changes two are approved.
func (r *rig) applying() (ref flow.ApplyRef, statuses func() string) {
	r.t.Helper()
	in := r.triggered("wait")
	ref = flow.ApplyRef{TenantID: in.TenantID, ID: in.ID}
	r.exec("INSERT INTO map_change_sets (tenant_id, execution, status, workflow_id, updated_at) VALUES ($1, $2, 'applying', 'w', now())", ref.TenantID, ref.ID)
	for i, id := range []string{"a", "b"} {
		r.exec(`INSERT INTO map_changes (tenant_id, dry_run, id, execution, place, path, verb, depends_on, status)
			VALUES ($1, $2, $3, $2, ARRAY[$4::integer], ARRAY['/steps/0'], 'shop:refund', '{}', 'approved')`, ref.TenantID, ref.ID, id, i)
	}
	return ref, func() (all string) {
		require.NoError(r.t, r.admin.QueryRow(context.Background(), `SELECT (SELECT string_agg(c.status, ' ' ORDER BY c.id) FROM map_changes c WHERE c.dry_run = s.execution) || ' ' || s.status
			FROM map_change_sets s WHERE s.execution = $1`, ref.ID).Scan(&all))
		return all
	}
}

// A hand that is late, because its worker stood still, ends no change whose call another one has
// claimed meanwhile.
func TestLateEndOfAChangeIsNoEndWhereItsCallIsClaimed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref, statuses := r.applying()
	late, err := r.NextChange(t.Context(), ref)
	require.NoError(t, err)
	r.exec("UPDATE map_changes SET status = 'applying', run = $3 WHERE tenant_id = $1 AND dry_run = $2 AND id = 'a'", ref.TenantID, ref.ID, uuid.New())
	require.NoError(t, r.EndChange(t.Context(), late, execution.DriftedEnd("late")))
	require.Equal(t, "applying approved applying", statuses())

	claimed, err := r.NextChange(t.Context(), ref)
	require.NoError(t, err)
	require.NoError(t, r.EndChange(t.Context(), claimed, execution.ChangeEnd{Status: execution.ChangeApplied}))
	require.Equal(t, "applied approved applying", statuses())

	next, err := r.NextChange(t.Context(), ref)
	require.NoError(t, err)
	require.NoError(t, r.EndChange(t.Context(), next, execution.DriftedEnd("it has changed")))
	require.Equal(t, "applied drifted stopped", statuses())
}
