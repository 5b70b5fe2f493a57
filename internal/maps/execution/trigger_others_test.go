package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

const anotherMap = "0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a22"

func (r *rig) program(definition string) *stepmachine.Program {
	r.t.Helper()
	def, faults := mapdef.Read([]byte(definition))
	require.Empty(r.t, faults)
	p, err := stepmachine.Compile(def)
	require.NoError(r.t, err)
	return p
}

// starts is what a step asks for, with the record of the step that is written with it.
func starts(ref flow.MapRef, attempt int, payload string) flow.MapStart {
	at := stepmachine.Ref{Path: "/steps/0", Attempt: attempt}
	return flow.MapStart{
		MapWrites: flow.MapWrites{MapRef: ref, Commands: []stepmachine.Command{stepmachine.RecordStep{Ref: at, ID: "sub", Type: mapdef.TypeMap, Status: stepmachine.StepRunning}}},
		Start:     stepmachine.StartMap{Ref: at, MapID: anotherMap, Payload: stepmachine.Of(json.RawMessage(payload)), Wait: true},
	}
}

func TestAttemptOfAStepStartsOneOtherMap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	r.maps.program = r.program(`{"schema_version":"1","name":"Other","steps":[]}`)
	first, err := r.StartOther(t.Context(), starts(ref, 1, `{}`))
	require.NoError(t, err)
	require.False(t, first.Done)
	again, err := r.StartOther(t.Context(), starts(ref, 1, `{}`))
	require.NoError(t, err)
	require.Equal(t, first, again)
	// A crash may come before the answer, and the Map may be deleted meanwhile.
	program := r.maps.program
	r.maps.program = nil
	again, err = r.StartOther(t.Context(), starts(ref, 1, `{}`))
	require.NoError(t, err)
	require.Equal(t, first, again)
	r.maps.program = program
	second, err := r.StartOther(t.Context(), starts(ref, 2, `{}`))
	require.NoError(t, err)
	require.NotEqual(t, first.Child, second.Child)
	require.Equal(t, 2, r.number("SELECT count(*) FROM map_executions WHERE parent_id = 'exec_one' AND depth = 1 AND awaited"))
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_steps s JOIN map_executions e ON e.execution_id = s.run_id"))
}

// A start keeps its connection, and the turn of a concurrency key, until it is committed. Where each waited
// for a second connection meanwhile, all would wait for each other.
func TestStartOfAnotherMapTakesOneConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, err := db.Open(t.Context(), db.Config{URL: r.db.AppURL, MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r.db.Pool = pool
	r.Service = r.service(nothing{reads: true})
	ref := r.triggered("one")
	r.maps.program = r.program(`{"schema_version":"1","name":"Other","steps":[]}`)
	in := starts(ref, 1, `{}`)
	in.Commands = append(in.Commands,
		stepmachine.Emit{Ref: stepmachine.Ref{Path: "/steps/1"}, ID: "evt_1", Type: "custom.told", Data: stepmachine.Of(json.RawMessage(`{"n":1}`))},
		stepmachine.Escalate{Ref: stepmachine.Ref{Path: "/steps/2"}, Reason: "why"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = r.StartOther(ctx, in)
	require.NoError(t, err)
	require.Equal(t, 2, r.number("SELECT count(*) FROM events"))
}

// A step looks at the other Map as long as that one waits. Only the first look after a model of the other
// Map has read what others wrote notes it.
func TestLookAtATaintedMapIsNotedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	r.maps.program = r.program(`{"schema_version":"1","name":"Other","steps":[]}`)
	started, err := r.StartOther(t.Context(), starts(ref, 1, `{}`))
	require.NoError(t, err)
	r.exec("UPDATE map_executions SET tainted = true WHERE id = $1", started.Child)
	for _, noted := range []int{1, 0} {
		at, err := r.LookAtOther(t.Context(), flow.MapOfMapRef{MapRef: ref, Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Child: started.Child})
		require.NoError(t, err)
		require.True(t, at.Tainted)
		require.Equal(t, noted, r.number("SELECT count(*) FROM map_executions WHERE execution_id = 'exec_one' AND tainted"))
		r.exec("UPDATE map_executions SET tainted = false WHERE execution_id = 'exec_one'")
	}
}

// A repeat of a call brings a name of its own, although it finds the run of the first. A refused call
// has no run.
func TestStepShowsTheRunThatItsCallHasClaimed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	e, err := r.Head(t.Context(), ref)
	require.NoError(t, err)
	at := stepmachine.Ref{Path: "/steps/0", Attempt: 1}
	call := func(seq int, name string) {
		t.Helper()
		b := &db.Batch{}
		w := flow.MapWrites{MapRef: ref, Seq: seq, Commands: []stepmachine.Command{stepmachine.RecordStep{Ref: at, ID: "call", Type: mapdef.TypeVerb, Status: stepmachine.StepRunning}}}
		queue, err := r.Prepare(t.Context(), e, w)
		require.NoError(t, err)
		queue(b, execution.Called{Ref: at, Run: name})
		require.NoError(t, r.db.Send(t.Context(), r.tenant, b))
	}
	shown := func() (name string) {
		t.Helper()
		require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT coalesce(run_id, '') FROM map_steps WHERE execution = $1", ref.ID).Scan(&name))
		return name
	}
	call(1, "exec_refused")
	require.NoError(t, r.ForgetRun(t.Context(), e, at))
	require.Empty(t, shown())
	r.exec("INSERT INTO run_keys (tenant_id, key, run_id) VALUES ($1, 'exec_first', $2)", r.tenant, uuid.New())
	call(2, "exec_first")
	require.NoError(t, r.ForgetRun(t.Context(), e, at), "it has a run")
	require.Equal(t, "exec_first", shown())
	call(3, "exec_repeat")
	require.Equal(t, "exec_first", shown())
	require.NoError(t, r.NameRun(t.Context(), e, execution.Called{Ref: at, Run: "exec_found"}))
	require.Equal(t, "exec_found", shown(), "an earlier try made the run, and wrote no row")
	require.NoError(t, r.NameRun(t.Context(), e, execution.Called{Ref: at, Run: "exec_first"}))
	at.Attempt = 2
	call(4, "exec_second")
	require.Equal(t, "exec_second", shown())
}

func TestOtherMapIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	exact := r.program(`{"schema_version":"1","name":"Other","trigger_schema":{"type":"object","required":["n"]},"steps":[]}`)
	for name, c := range map[string]struct {
		program *stepmachine.Program
		depth   int
		payload string
		code    string
	}{
		"is gone":             {nil, 0, `{"n":1}`, "MAP_NOT_FOUND"},
		"does not fit":        {exact, 0, `{}`, "INVALID_ARGS"},
		"takes no array":      {exact, 0, `[]`, "INVALID_ARGS"},
		"would be the sixth":  {exact, 4, `{"n":1}`, "CONFLICT"},
		"is the fifth, fits ": {exact, 3, `{"n":1}`, ""},
	} {
		ref := r.triggered(name)
		r.exec("UPDATE map_executions SET depth = $1 WHERE id = $2", c.depth, ref.ID)
		r.maps.program = c.program
		at, err := r.StartOther(t.Context(), starts(ref, 1, c.payload))
		require.NoError(t, err, name)
		require.Equal(t, c.code != "", at.Done, name)
		if c.code != "" {
			require.Equal(t, stepmachine.CallFailed, at.End.Status, name)
			require.Equal(t, c.code, at.End.Error.Code, name)
			require.True(t, at.End.MayRepeat, name)
		}
	}
	require.Equal(t, 5, r.number("SELECT count(*) FROM map_steps"), "what goes with the start is written in any case")
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_executions WHERE parent_id IS NOT NULL"))
}

func TestEndOfAnotherMapIsThatOfTheStep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.triggered("one")
	r.maps.program = r.program(`{"schema_version":"1","name":"Other","steps":[]}`)
	for i, c := range []struct {
		set       string
		waits     stepmachine.Waiting
		status    stepmachine.CallStatus
		mayRepeat bool
		wrote     bool
	}{
		{"status = 'running'", "", "", false, false},
		{`status = 'waiting', waiting_for = '{"for":"event"}'`, stepmachine.WaitsEvent, "", false, false},
		{`status = 'pending_approval', waiting_for = '{"for":"approval"}'`, stepmachine.WaitsApproval, "", false, false},
		{"status = 'paused'", stepmachine.WaitsMap, "", false, false},
		{`status = 'waiting', waiting_for = '{"for":"concurrency","step":""}'`, stepmachine.WaitsMap, "", false, false},
		{"status = 'completed', wrote = true, finished_at = now()", "", stepmachine.CallExecuted, false, true},
		{"status = 'failed', finished_at = now()", "", stepmachine.CallFailed, true, false},
		{"status = 'failed', wrote = true, finished_at = now()", "", stepmachine.CallFailed, false, true},
		{"status = 'cancelled', finished_at = now()", "", stepmachine.CallCancelled, false, false},
		{"status = 'cancelled', wrote = true, finished_at = now()", "", stepmachine.CallFailed, false, true},
		{"status = 'completed', finished_at = now(), erased_at = now()", "", stepmachine.CallFailed, false, false},
	} {
		started, err := r.StartOther(t.Context(), starts(ref, i+1, `{}`))
		require.NoError(t, err)
		r.exec("UPDATE map_executions SET "+c.set+" WHERE id = $1", started.Child)
		at, err := r.LookAtOther(t.Context(), flow.MapOfMapRef{MapRef: ref, Ref: stepmachine.Ref{Path: "/steps/0", Attempt: i + 1}, Child: started.Child})
		require.NoError(t, err)
		require.Equal(t, c.waits, at.Waits, c.set)
		require.Equal(t, c.status != "", at.Done, c.set)
		require.Equal(t, c.status, at.End.Status, c.set)
		require.Equal(t, c.mayRepeat, at.End.MayRepeat, c.set)
		require.Equal(t, c.wrote, at.End.Wrote, c.set)
	}
}

// Where calls are short, the beginning and the end of a step are one write. It leaves what two leave.
func TestRecordsThatHaveWaitedLeaveTheSameRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, began := uuid.Must(uuid.NewV7()), time.Now().UTC().Truncate(time.Millisecond)
	at := stepmachine.Ref{Path: "/steps/0", Attempt: 1}
	input, output := stepmachine.Of(json.RawMessage(`{"a":1}`)), stepmachine.Of(json.RawMessage(`{"b":2}`))
	begins := stepmachine.RecordStep{Ref: at, ID: "call", Type: mapdef.TypeVerb, Status: stepmachine.StepRunning, Input: &input, Began: began}
	ends := stepmachine.RecordStep{
		Ref: at, ID: "call", Type: mapdef.TypeVerb, Status: stepmachine.StepCompleted, Output: &output, Began: began.Add(time.Second), Ended: began.Add(2 * time.Second),
	}
	write := func(w flow.MapWrites) {
		t.Helper()
		e, err := r.Head(t.Context(), w.MapRef)
		require.NoError(t, err)
		require.NoError(t, r.WriteSteps(t.Context(), e, w, execution.Called{}))
	}
	row := func(ref flow.MapRef) (text string) {
		t.Helper()
		require.NoError(t, r.admin.QueryRow(t.Context(), `SELECT concat_ws(' ', path, seq, rev, step, type, status, attempts, run_id, began_at, ended_at, input IS NOT NULL, output IS NOT NULL)
			FROM map_steps WHERE execution = $1`, ref.ID).Scan(&text))
		return text
	}
	apart, together := r.triggered("apart"), r.triggered("together")
	kept := []flow.MapKept{{Number: 7, Run: run}}
	write(flow.MapWrites{MapRef: apart, Seq: 9, Commands: []stepmachine.Command{begins}, Kept: kept})
	write(flow.MapWrites{MapRef: apart, Seq: 9, Commands: []stepmachine.Command{ends}})
	write(flow.MapWrites{MapRef: together, Seq: 9, Commands: []stepmachine.Command{begins, ends}, Kept: kept})
	require.Equal(t, row(apart), row(together))
	require.Contains(t, row(together), " 7 10 call verb completed 1 exec_"+run.String())
}
