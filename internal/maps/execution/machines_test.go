package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/nextmachine"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
	"agentruntime/internal/kernel/stepmachine/machines"
	"agentruntime/internal/maps/execution"
)

// opened is an execution that a trigger has opened, as the rig's process.
func (r *rig) opened(dryRun bool) execution.Execution {
	r.t.Helper()
	who := actor.Actor{Kind: actor.User, ID: uuid.New(), TenantID: r.tenant}
	out, err := r.Trigger(context.Background(), who, execution.Request{
		MapID: uuid.MustParse(anotherMap), Payload: json.RawMessage(`{}`), Metadata: json.RawMessage(`{}`), DryRun: dryRun, Wait: new(time.Duration),
	})
	require.NoError(r.t, err)
	return out.Execution
}

// begins begins an attempt of an execution on the machine that its workflow is told of, and returns
// the machine's version with it.
func (r *rig) begins(known stepmachine.Machines, ref flow.MapRef) (version int, x stepmachine.Execution, commands []stepmachine.Command) {
	r.t.Helper()
	begun, err := r.Begin(context.Background(), ref)
	require.NoError(r.t, err)
	machine, err := known.Of(begun.Machine)
	require.NoError(r.t, err)
	if begun.Again == nil {
		x, commands = machine.Start(r.maps.program, time.Now(), begun.Beginning)
		return begun.Machine, x, commands
	}
	x, err = machine.Resume(r.maps.program, begun.State, 0)
	require.NoError(r.t, err)
	commands, err = x.Next(time.Now(), *begun.Again)
	require.NoError(r.t, err)
	return begun.Machine, x, commands
}

// finishes writes the end that the commands have.
func (r *rig) finishes(ref flow.MapRef, x stepmachine.Execution, commands []stepmachine.Command) {
	r.t.Helper()
	state, err := x.Encode()
	require.NoError(r.t, err)
	end, is := commands[len(commands)-1].(stepmachine.Finish)
	require.True(r.t, is)
	_, err = r.Finish(context.Background(), flow.MapFinish{MapWrites: flow.MapWrites{MapRef: ref, Commands: commands[:len(commands)-1]}, Finish: end, State: state, Revision: x.Shown().Revision})
	require.NoError(r.t, err)
}

// An execution is open while a release brings the next version of the step machine. It fails and is
// retried on the version that its row names. What is triggered since runs on the next one.
func TestExecutionStaysOnTheMachineThatItsRowNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Fails","steps":[{"id":"no","type":"raise","error":{"code":"NO"}}]}`)
	old := r.opened(false)
	known := nextmachine.Machines()
	before := r.Service
	r.Service = r.service(known, nothing{})
	young := r.opened(false)
	user := actor.Actor{Kind: actor.User, ID: uuid.New(), TenantID: r.tenant}
	for want, e := range map[int]execution.Execution{stepmachine.Version: old, nextmachine.Version: young} {
		ref := flow.MapRef{TenantID: r.tenant, ID: e.ID, Attempt: 1}
		for range 2 {
			version, x, commands := r.begins(known, ref)
			require.Equal(t, want, version)
			r.finishes(ref, x, commands)
			failed, err := r.Get(t.Context(), user, e.ExecutionID)
			require.NoError(t, err)
			_, err = r.Retry(t.Context(), user, failed, execution.Retry{})
			require.NoError(t, err)
			ref.Attempt++
		}
	}
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_executions WHERE machine = 1"))

	// A process of the release before refuses to judge about a state that it cannot read.
	ref := flow.MapRef{TenantID: r.tenant, ID: young.ID, Attempt: 3}
	_, x, commands := r.begins(known, ref)
	r.finishes(ref, x, commands)
	failed, err := before.Get(t.Context(), user, young.ExecutionID)
	require.NoError(t, err)
	_, err = before.Retry(t.Context(), user, failed, execution.Retry{})
	require.Equal(t, fault.CodeServiceUnavailable, fault.As(err).Code)
}

// really answers what each run has really brought.
type really struct{}

func (really) Result(context.Context, uuid.UUID, uuid.UUID) (json.RawMessage, error) {
	return json.RawMessage(`{"id":"real"}`), nil
}

// A change of a dry run is rebuilt from a real value by the machine that the dry run ran on. The other
// one would not come to the change.
func TestChangeIsRebuiltOnTheMachineOfItsDryRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begun stepmachine.Machines
		want  int
		skip  string
	}{
		"of the one before": {machines.All(), stepmachine.Version, `${context.machine != null}`},
		"of the next one":   {nextmachine.Machines(), nextmachine.Version, `${context.machine == null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.results = really{}
			r.maps.program = r.program(`{"schema_version":"1","name":"Changes","steps":[{"id":"make","type":"verb","verb":"shop:make","args":{}},
				{"id":"ship","type":"verb","verb":"shop:ship","skip_if":"` + c.skip + `","args":{"id":"${steps.make.output.id}"}}]}`)
			r.Service = r.service(c.begun, nothing{})
			e := r.opened(true)
			ref := flow.MapRef{TenantID: r.tenant, ID: e.ID, Attempt: 1}
			known := nextmachine.Machines()
			r.Service = r.service(known, nothing{})
			version, x, commands := r.begins(known, ref)
			require.Equal(t, c.want, version)
			r.intercepted(ref, x, commands)

			args, drift := r.rebuilt(e)
			require.Empty(t, drift)
			require.JSONEq(t, `{"id":"real"}`, args)
		})
	}
}

// A change of a dry run is rebuilt by the rules that were in force when the dry run began. By those since
// then, it would not come to the change: data of an emit is an object.
func TestChangeIsRebuiltByTheRevisionOfItsDryRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.results = really{}
	r.maps.program = r.program(`{"schema_version":"1","name":"Changes","steps":[{"id":"make","type":"verb","verb":"shop:make","args":{}},
		{"id":"tell","type":"emit","event":"custom.made","data":"${steps.make.output.id}"},
		{"id":"ship","type":"verb","verb":"shop:ship","args":{"id":"${steps.make.output.id}"}}]}`)
	r.Service = r.service(machines.All(), nothing{})
	e := r.opened(true)
	ref := flow.MapRef{TenantID: r.tenant, ID: e.ID, Attempt: 1}
	begun, err := r.Begin(t.Context(), ref)
	require.NoError(t, err)
	begun.Beginning.Revision = 0
	x, commands := stepmachine.This{}.Start(r.maps.program, time.Now(), begun.Beginning)
	r.intercepted(ref, x, commands)

	args, drift := r.rebuilt(e)
	require.Empty(t, drift)
	require.JSONEq(t, `{"id":"real"}`, args)
}

// rebuilt returns the arguments of the change after shop:make, which was applied.
func (r *rig) rebuilt(e execution.Execution) (args, drift string) {
	r.t.Helper()
	r.exec("UPDATE map_change_sets SET status = 'applying', workflow_id = 'w'")
	r.exec("UPDATE map_changes SET status = 'approved'")
	r.exec("UPDATE map_changes SET status = 'applied', run = $1 WHERE verb = 'shop:make'", uuid.New())
	change, err := r.NextChange(r.t.Context(), flow.ApplyRef{TenantID: r.tenant, ID: e.ID})
	require.NoError(r.t, err)
	got, drift, err := r.Arguments(r.t.Context(), change)
	require.NoError(r.t, err)
	return string(got), drift
}

// intercepted takes a dry run to its end, in which each call is intercepted.
func (r *rig) intercepted(ref flow.MapRef, x stepmachine.Execution, commands []stepmachine.Command) {
	r.t.Helper()
	for i := 0; i < len(commands); i++ {
		call, is := commands[i].(stepmachine.StartVerb)
		if !is {
			continue
		}
		made := stepmachine.Of(json.RawMessage(`{"id":"invented"}`))
		more, err := x.Next(time.Now(), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{Ref: call.Ref, Status: stepmachine.CallIntercepted, Result: made}})
		require.NoError(r.t, err)
		commands = append(commands, more...)
	}
	r.finishes(ref, x, commands)
	require.Equal(r.t, 2, r.number("SELECT count(*) FROM map_changes"))
}
