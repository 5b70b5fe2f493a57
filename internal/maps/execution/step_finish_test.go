package execution_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
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

// An event is written once. So it has no output rather than one of which all is masked because nobody
// knew what to mask.
func TestEventOfAnEndHasNoOutputThatNobodyKnewToMask(t *testing.T) {
	t.Parallel()
	for _, unmasked := range []bool{false, true} {
		r := newRig(t)
		s := r.service(nothing{unmasked: unmasked})
		r.maps.program = r.program(`{"schema_version":"1","name":"Ends","steps":[{"id":"a","type":"verb","verb":"shop:read"}]}`)
		out := stepmachine.Finish{Status: stepmachine.StatusCompleted, Output: stepmachine.Of(json.RawMessage(`{"a":1}`))}
		_, err := s.Finish(t.Context(), flow.MapFinish{MapWrites: flow.MapWrites{MapRef: r.triggered("ends")}, Finish: out})
		require.NoError(t, err)
		var id uuid.UUID
		var sealed string
		require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT id, body FROM events").Scan(&id, &sealed))
		key, err := testkit.Keys{}.Key(t.Context(), r.tenant)
		require.NoError(t, err)
		text, err := key.Open(datakey.Place{Tenant: r.tenant, Row: id, Field: datakey.EventBody}, sealed)
		require.NoError(t, err)
		require.Equal(t, !unmasked, strings.Contains(string(text), `"output":{"a":1}`), string(text))
		require.Equal(t, unmasked, !strings.Contains(string(text), `"output"`), string(text))
	}
}

// written writes that a step is in a status, as the record with the number.
func (r *rig) written(ref flow.MapRef, number, attempt int, status stepmachine.StepStatus) {
	r.t.Helper()
	_, err := r.Write(r.t.Context(), flow.MapWrites{MapRef: ref, Seq: number - 1, Commands: []stepmachine.Command{stepIs(attempt, status)}})
	require.NoError(r.t, err)
}

// ended ends the execution, whose last record has the number 20.
func (r *rig) ended(ref flow.MapRef, status stepmachine.Status, last ...stepmachine.Command) {
	r.t.Helper()
	_, err := r.Finish(r.t.Context(), flow.MapFinish{
		MapWrites: flow.MapWrites{MapRef: ref, Seq: 20 - len(last), Commands: last}, Finish: stepmachine.Finish{Status: status},
	})
	require.NoError(r.t, err)
}

func stepIs(attempt int, status stepmachine.StepStatus) stepmachine.RecordStep {
	step := stepmachine.RecordStep{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: attempt}, ID: "s", Type: mapdef.TypeVerb, Status: status}
	if status != stepmachine.StepRunning && status != stepmachine.StepWaiting && status != stepmachine.StepUnknown {
		step.Ended = time.Now()
	}
	return step
}

func (r *rig) requireStep(status stepmachine.StepStatus) {
	r.t.Helper()
	var is string
	require.NoError(r.t, r.admin.QueryRow(r.t.Context(), "SELECT status FROM map_steps").Scan(&is))
	require.Equal(r.t, string(status), is)
}

// Which records may follow the end of a step. A task that was lost and its repeat write beside each
// other, each with its own numbers.
func TestEndOfAStepIsTakenBackOnlyByWhatComesAfterIt(t *testing.T) {
	t.Parallel()
	again := func(r *rig, ref flow.MapRef) flow.MapRef {
		r.exec("UPDATE map_executions SET attempt = attempt + 1, status = 'running', finished_at = NULL") // as a retry does
		ref.Attempt++
		return ref
	}
	for name, c := range map[string]struct {
		then func(r *rig, ref flow.MapRef)
		want stepmachine.StepStatus
	}{
		"the repeat of the task that saw the end": {func(r *rig, ref flow.MapRef) { r.written(ref, 30, 1, stepmachine.StepWaiting) }, stepmachine.StepCompleted},
		"a repeat beside the end of the execution": {func(r *rig, ref flow.MapRef) {
			r.written(ref, 30, 1, stepmachine.StepRunning)
			r.written(ref, 31, 1, stepmachine.StepWaiting)
			r.ended(ref, stepmachine.StatusCompleted)
		}, stepmachine.StepCompleted},
		"a retry of the step":          {func(r *rig, ref flow.MapRef) { r.written(ref, 30, 2, stepmachine.StepRunning) }, stepmachine.StepRunning},
		"an outcome that is not known": {func(r *rig, ref flow.MapRef) { r.written(ref, 30, 1, stepmachine.StepUnknown) }, stepmachine.StepUnknown},
		"another end":                  {func(r *rig, ref flow.MapRef) { r.written(ref, 30, 1, stepmachine.StepFailed) }, stepmachine.StepFailed},
		"an end of before":             {func(r *rig, ref flow.MapRef) { r.written(ref, 5, 1, stepmachine.StepFailed) }, stepmachine.StepCompleted},
		"a retry of the execution from the step": {func(r *rig, ref flow.MapRef) {
			r.ended(ref, stepmachine.StatusFailed)
			r.written(again(r, ref), 30, 1, stepmachine.StepWaiting)
		}, stepmachine.StepWaiting},
		"a retry of the execution after a task was lost": {func(r *rig, ref flow.MapRef) {
			r.written(ref, 30, 1, stepmachine.StepFailed)
			r.ended(ref, stepmachine.StatusFailed)
			r.written(again(r, ref), 21, 1, stepmachine.StepWaiting)
		}, stepmachine.StepWaiting},
		"a task of the attempt before": {func(r *rig, ref flow.MapRef) {
			r.ended(ref, stepmachine.StatusFailed)
			again(r, ref)
			r.written(ref, 30, 2, stepmachine.StepWaiting)
		}, stepmachine.StepCompleted},
		"the repeat of a task that ended the execution": {func(r *rig, ref flow.MapRef) {
			r.ended(ref, stepmachine.StatusCompleted)
			r.written(ref, 30, 2, stepmachine.StepFailed)
		}, stepmachine.StepCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.maps.program = r.program(`{"schema_version":"1","name":"Ends","steps":[]}`)
			ref := r.triggered("ends")
			r.written(ref, 9, 1, stepmachine.StepWaiting)
			r.written(ref, 10, 1, stepmachine.StepCompleted)
			c.then(r, ref)
			r.requireStep(c.want)
		})
	}
}

// The end of an execution has the last records of its steps with it, also where the repeat of its
// task has written before with higher numbers.
func TestEndOfAnExecutionHasTheEndsOfItsSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Ends","steps":[]}`)
	ref := r.triggered("ends")
	r.written(ref, 30, 1, stepmachine.StepWaiting)
	r.ended(ref, stepmachine.StatusCompleted, stepIs(1, stepmachine.StepCompleted))
	r.requireStep(stepmachine.StepCompleted)
	r.written(ref, 40, 1, stepmachine.StepWaiting)
	r.requireStep(stepmachine.StepCompleted)
}

// A workflow task that was lost has written that a step began, and its repeat ends the execution before
// that step. An outcome that nobody knows stays.
func TestEndOfAnExecutionGivesUpStepsThatHaveNone(t *testing.T) {
	t.Parallel()
	for was, is := range map[stepmachine.StepStatus]stepmachine.StepStatus{
		stepmachine.StepRunning: stepmachine.StepCancelled, stepmachine.StepWaiting: stepmachine.StepCancelled,
		stepmachine.StepUnknown: stepmachine.StepUnknown, stepmachine.StepFailed: stepmachine.StepFailed,
	} {
		r := newRig(t)
		r.maps.program = r.program(`{"schema_version":"1","name":"Ends","steps":[]}`)
		ref := r.triggered("ends")
		r.written(ref, 30, 1, was)
		r.ended(ref, stepmachine.StatusCancelled)
		r.requireStep(is)
		require.Equal(t, is != stepmachine.StepUnknown, r.number("SELECT count(*) FROM map_steps WHERE ended_at IS NOT NULL") == 1)
	}
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

// A task that was lost shows what it knew, after its repeat has shown what the execution waits for.
func TestLateShowOfALostTaskChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Shows","steps":[]}`)
	ref := r.triggered("shows")
	show := func(number int, status stepmachine.Status) {
		_, err := r.Write(t.Context(), flow.MapWrites{MapRef: ref, Seq: number, Show: &flow.MapShow{Status: status}})
		require.NoError(t, err)
		var is string
		require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT status FROM map_executions").Scan(&is))
		require.Equal(t, string(stepmachine.StatusPending), is)
	}
	show(20, stepmachine.StatusPending)
	show(10, stepmachine.StatusRunning)
	show(20, stepmachine.StatusPending)
}
