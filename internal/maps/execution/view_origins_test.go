package execution_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// below adds executions that a step of another one has waited for. They are named by the prefix.
func (r *rig) below(parent, prefix, id string, n int) {
	r.t.Helper()
	r.exec(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at, parent_id, step, awaited, depth)
		SELECT gen_random_uuid(), $1, 'exec_' || $3 || i, $4, 1, 'non_cognitive', false, '', '', '{}', 'map', '', '', $3 || i, now(), 'exec_' || $2, '/steps/0', true, 1
		  FROM generate_series(1, $5) AS i`, r.tenant, parent, prefix, id, n)
}

// The output of a Map that gives on what others gave is masked by the versions that have run. Where those
// are not known, all of it is.
func TestResultsOfOtherMapsAreThoseOfTheVersionsThatHaveRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const second = "0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a23"
	other := func(steps string) *stepmachine.Program {
		return r.program(`{"schema_version":"1","name":"Other","steps":[` + steps + `]}`)
	}
	starts := func(id, more string) string { return `{"id":"in","type":"map","map_id":"` + id + `"` + more + `}` }
	inBranches := other(`{"id":"both","type":"parallel","branches":[{"id":"a","steps":[` + starts(second, "") + `]}]}`)
	r.maps.program = other(starts(anotherMap, ""))
	r.maps.others = map[uuid.UUID]*stepmachine.Program{uuid.MustParse(anotherMap): inBranches, uuid.MustParse(second): other(`{"id":"v","type":"verb","verb":"shop:read"}`)}
	var asked []execution.ShownCall
	s := r.service(nothing{asked: &asked})
	results := func(ctx context.Context, name string) (found []execution.ResultIn) {
		t.Helper()
		_, err := s.Shown(ctx, execution.Execution{TenantID: r.tenant, ExecutionID: "exec_" + name, MapID: uuid.New(), Version: 1, Output: json.RawMessage(`{"a":1}`)})
		require.NoError(t, err)
		for _, call := range asked {
			found = append(found, call.Results...)
		}
		return found
	}
	unknown := []execution.ResultIn{{}}
	require.Empty(t, results(t.Context(), "none"), "none was started")
	r.below("one", "first", anotherMap, 3)
	require.Empty(t, results(t.Context(), "one"), "none of those has started the one that calls a verb")
	r.below("first2", "second", second, 3)
	require.Equal(t, []execution.ResultIn{{Verb: "shop:read", Deep: 1}}, results(t.Context(), "one"))
	r.maps.program = other(starts(anotherMap, `,"version":2`))
	require.Empty(t, results(t.Context(), "one"), "the step starts another version than the one that ran")
	r.maps.program = other(starts(anotherMap, `,"wait":false`))
	require.Empty(t, results(t.Context(), "one"), "the step does not wait")
	r.maps.program = other(starts(anotherMap, ""))

	gone, stop := context.WithCancel(t.Context())
	stop()
	require.Equal(t, unknown, results(gone, "one"), "the versions cannot be read")
	r.below("many", "each", anotherMap, 21_000)
	require.Equal(t, unknown, results(t.Context(), "many"))
	r.maps.others[uuid.MustParse(second)] = nil
	require.Equal(t, []execution.ResultIn{{Deep: 1}}, results(t.Context(), "one"), "the version is deleted")
	r.maps.program = other(`{"id":"v","type":"verb","verb":"shop:read"}`)
	require.Equal(t, []execution.ResultIn{{Verb: "shop:read"}}, results(gone, "one"), "nothing is read for a Map that starts no other")
}
