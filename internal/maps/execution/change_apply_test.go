package execution_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
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

// stored is a value that an earlier release has stored.
func (r *rig) stored(ref flow.ApplyRef, name, value string) {
	r.t.Helper()
	key, err := testkit.Keys{}.Key(context.Background(), ref.TenantID)
	require.NoError(r.t, err)
	body, err := json.Marshal(stepmachine.Of(json.RawMessage(value)))
	require.NoError(r.t, err)
	place := datakey.Place{Tenant: ref.TenantID, Row: uuid.NewSHA1(ref.ID, []byte(name)), Field: datakey.MapValue}
	r.exec("INSERT INTO map_values (tenant_id, execution, name, body) VALUES ($1, $2, $3, $4)", ref.TenantID, ref.ID, name, key.Seal(place, body))
}

// An earlier release stored what a probe had found, and nothing else. Such a list is applied as before.
func TestChangesOfAnEarlierReleaseAreComparedAsBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref, _ := r.applying()
	unprobed, err := r.NextChange(t.Context(), ref)
	require.NoError(t, err)
	require.Nil(t, unprobed.Probed)

	r.stored(ref, "before:/steps/0", `{"v":1}`)
	r.stored(ref, "probe:/steps/0", `{"run_id":"`+uuid.NewString()+`"}`)
	c, err := r.NextChange(t.Context(), ref)
	require.NoError(t, err)
	require.NotNil(t, c.Probed)
	for drifts, now := range map[bool][]verb.Look{
		false: {{State: verb.LookFound, Value: json.RawMessage(`{"v":1}`), Of: "a"}},
		true:  {{State: verb.LookFound, Value: json.RawMessage(`{"v":2}`), Of: "a"}, {State: verb.LookNotFound, Of: "a"}, {State: verb.LookNotRead}},
	} {
		for _, look := range now {
			why, err := r.Drifted(t.Context(), c, look)
			require.NoError(t, err)
			require.Equal(t, drifts, why != "", "%+v: %s", look, why)
		}
	}
	c.DryRun.DryRun = true
	list, err := r.Changes(t.Context(), c.DryRun, 0, 10)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1}`, string(list.Changes[0].Before))
	require.Equal(t, verb.LookFound, list.Changes[0].BeforeState)
}

// swept is what the job has made of an apply that did nothing for a minute.
func (r *rig) swept() {
	r.t.Helper()
	r.exec("UPDATE map_change_sets SET updated_at = now() - interval '1 minute'")
	require.NoError(r.t, r.SweepApplies(context.Background()))
}

func TestApplyWhoseStartWasLostIsStartedByTheJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref, statuses := r.applying()
	require.NoError(t, r.SweepApplies(t.Context()))
	r.swept()
	require.Empty(t, r.engine.applies, "its workflow is open")
	r.engine.lost = true
	require.NoError(t, r.SweepApplies(t.Context()))
	require.Empty(t, r.engine.applies, "it was looked at a moment ago")
	r.swept()
	require.Equal(t, []flow.ApplyRef{ref}, r.engine.applies)
	require.Equal(t, "approved approved applying", statuses())
}

func TestApplyWhoseWorkflowAnOperatorHasEndedIsStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want, reason string }{
		"before its first change": {"SELECT $1::uuid", "not_applied not_applied stopped", ""},
		"between two changes":     {"UPDATE map_changes SET status = 'applied', run = $1 WHERE id = 'a'", "applied not_applied stopped", ""},
		"in a call": {
			"UPDATE map_changes SET status = 'applying', run = $1 WHERE id = 'a'", "failed not_applied stopped",
			"CONFLICT: The workflow that applied the changes was ended by an operator. The execution of the change says how far its call got.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, statuses := r.applying()
			r.exec(c.sql, uuid.New())
			r.engine.ended = true
			for range 2 {
				r.swept()
				require.Equal(t, c.want, statuses())
				require.Equal(t, 1, r.number("SELECT count(*) FROM audit_records WHERE action = 'map.changes_applied' AND outcome = 'stopped'"))
			}
			require.Empty(t, r.engine.applies)
			var reason string
			require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT coalesce(max(code || ': ' || reason), '') FROM map_changes").Scan(&reason))
			require.Equal(t, c.reason, reason)
		})
	}
}
