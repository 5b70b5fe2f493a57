package execution_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
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

// begins begins an attempt of an execution as its workflow does.
func (r *rig) begins(ref flow.MapRef) (x *stepmachine.Execution, commands []stepmachine.Command) {
	r.t.Helper()
	begun, err := r.Begin(context.Background(), ref)
	require.NoError(r.t, err)
	if begun.Again == nil {
		return stepmachine.Begin(r.maps.program, time.Now(), begun.Beginning)
	}
	x, err = stepmachine.Resume(r.maps.program, begun.State)
	require.NoError(r.t, err)
	commands, err = x.Next(time.Now(), *begun.Again)
	require.NoError(r.t, err)
	return x, commands
}

// finishes writes the end that the commands have.
func (r *rig) finishes(ref flow.MapRef, x *stepmachine.Execution, commands []stepmachine.Command) {
	r.t.Helper()
	state, err := x.Encode()
	require.NoError(r.t, err)
	end, is := commands[len(commands)-1].(stepmachine.Finish)
	require.True(r.t, is)
	_, err = r.Finish(context.Background(), flow.MapFinish{MapWrites: flow.MapWrites{MapRef: ref, Commands: commands[:len(commands)-1]}, Finish: end, State: state})
	require.NoError(r.t, err)
}

// really answers what each run has really brought.
type really struct{}

func (really) Result(context.Context, uuid.UUID, uuid.UUID) (json.RawMessage, error) {
	return json.RawMessage(`{"id":"real"}`), nil
}

// A change that was built from an invented value is rebuilt from the real one when it is applied.
func TestChangeIsRebuiltFromTheRealValue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.results = really{}
	r.maps.program = r.program(`{"schema_version":"1","name":"Changes","steps":[{"id":"make","type":"verb","verb":"shop:make","args":{}},
		{"id":"ship","type":"verb","verb":"shop:ship","args":{"id":"${steps.make.output.id}"}}]}`)
	r.Service = r.service(nothing{})
	e := r.opened(true)
	ref := flow.MapRef{TenantID: r.tenant, ID: e.ID, Attempt: 1}
	x, commands := r.begins(ref)
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
func (r *rig) intercepted(ref flow.MapRef, x *stepmachine.Execution, commands []stepmachine.Command) {
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
