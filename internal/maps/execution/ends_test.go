package execution_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/mapdef"
	"agentruntime/internal/kernel/stepmachine"
)

// The step that ends an execution is repeated where its process dies after the commit.
func TestRepeatedEndIsRecordedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Ends","steps":[]}`)
	ref := r.triggered("ends")
	step := stepmachine.RecordStep{Ref: stepmachine.Ref{Path: "/steps/0"}, ID: "s", Type: mapdef.TypeSet, Status: stepmachine.StepCompleted}
	for range 3 {
		out, err := r.Finish(t.Context(), flow.MapFinish{
			MapWrites: flow.MapWrites{MapRef: ref, Commands: []stepmachine.Command{step}}, Finish: stepmachine.Finish{Status: stepmachine.StatusCompleted},
		})
		require.NoError(t, err)
		require.Equal(t, stepmachine.StatusCompleted, out.Status)
	}
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_executions WHERE execution_id = 'exec_ends' AND status = 'completed'"))
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_steps"))
	require.Equal(t, 1, r.number("SELECT count(*) FROM audit_records WHERE action = 'map.ended'"))
	require.Equal(t, 1, r.number("SELECT count(*) FROM events WHERE type = 'map.completed'"))
}

// A workflow task that was lost has written that a step waits, under a higher number than the repeat
// of the task gives to its end.
func TestEndOfAStepCountsAfterALostTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("lost")
	write := func(seq int, status stepmachine.StepStatus, ended time.Time) {
		t.Helper()
		step := stepmachine.RecordStep{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, ID: "s", Type: mapdef.TypeVerb, Status: status, Ended: ended}
		_, err := r.Write(t.Context(), flow.MapWrites{MapRef: ref, Seq: seq, Commands: []stepmachine.Command{step}})
		require.NoError(t, err)
	}
	write(20, stepmachine.StepWaiting, time.Time{})
	write(10, stepmachine.StepCompleted, time.Now())
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_steps WHERE status = 'completed'"))
	write(15, stepmachine.StepRunning, time.Time{})
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_steps WHERE status = 'completed' AND rev > 20"))
}
