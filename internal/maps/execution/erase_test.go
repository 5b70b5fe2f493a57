package execution_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// What is left of an old execution is its name: the repeat of its trigger runs nothing.
func TestTriggerOfAnErasedExecutionIsExpired(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "refuse")
	out, err := r.tryTrigger("k", "old")
	require.NoError(t, err)
	r.ends(out.Execution)
	repeat, err := r.tryTrigger("k", "old")
	require.NoError(t, err)
	require.Equal(t, out.Execution.ID, repeat.Execution.ID)

	r.exec("UPDATE map_executions SET finished_at = now() - interval '29 days'")
	require.NoError(t, r.EraseOld(t.Context()))
	_, err = r.tryTrigger("k", "old")
	require.NoError(t, err, "results are kept 30 days")

	r.exec("UPDATE map_executions SET finished_at = now() - interval '31 days'")
	require.NoError(t, r.EraseOld(t.Context()))
	started := r.number("SELECT count(*) FROM map_executions")
	_, err = r.tryTrigger("k", "old")
	var refused *fault.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, fault.CodeResultExpired, refused.Code)
	require.Equal(t, out.Execution.ExecutionID, refused.ExecutionID)
	_, err = r.tryTrigger("k", "new")
	require.NoError(t, err)
	require.Equal(t, started+1, r.number("SELECT count(*) FROM map_executions"))
}

// A pass erases a batch, so that it never has many rows in one transaction.
func TestOldExecutionsAreErasedInBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.triggered("recent")
	r.exec("UPDATE map_executions SET status = 'completed', finished_at = now() - interval '29 days'")
	r.exec(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, status, updated_at, finished_at)
		SELECT gen_random_uuid(), $1, 'exec_' || n, gen_random_uuid(), 1, 'non_cognitive', false, '', 'text', '{}', 'key', '', '', n::text, 'completed', now(), now() - interval '31 days'
		FROM generate_series(1, 101) n`, r.tenant)
	for _, want := range []int{100, 101, 101} {
		require.NoError(t, r.EraseOld(t.Context()))
		require.Equal(t, want, r.number("SELECT count(*) FROM map_executions WHERE erased_at IS NOT NULL AND payload = ''"))
	}
	require.Equal(t, 102, r.number("SELECT count(*) FROM map_executions"), "no name is free again")
}
