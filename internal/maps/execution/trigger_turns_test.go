package execution_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// Attempts at one start that do not know of each other, because the worker of one was taken for dead,
// get one execution. Only that is noted, once, and a later attempt notes nothing.
func TestAttemptsAtOneStartOfAMessageGetOneExecution(t *testing.T) {
	t.Parallel()
	const attempts = 4
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Other","steps":[]}`)
	var all sync.WaitGroup
	all.Add(attempts)
	r.maps.meet = func() { all.Done(); all.Wait() } // each has looked for the execution, and found none
	var mu sync.Mutex
	var noted []string
	key := uuid.New()
	start := execution.TurnStart{
		MapID: uuid.New(), Version: 1, Payload: json.RawMessage(`{}`), Message: "exec_message", Workflow: "turn:1", AgentID: uuid.New(), Step: "answers/0/calls/0",
		Chain: agentloop.Chain{Turns: []agentloop.Caller{{ID: uuid.New()}}}, Metadata: json.RawMessage(`{}`),
	}
	who := actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: key}
	var got [attempts]execution.Execution
	var failed [attempts]error
	var done sync.WaitGroup
	for i := range attempts {
		done.Go(func() {
			one := start
			queued := ""
			one.Also = func(_ *db.Batch, executionID string) { queued = executionID }
			got[i], failed[i] = r.StartForTurn(t.Context(), who, one)
			mu.Lock()
			defer mu.Unlock()
			if queued != "" {
				noted = append(noted, queued)
			}
		})
	}
	done.Wait()
	for i := range attempts {
		require.NoError(t, failed[i])
		require.Equal(t, got[0].ID, got[i].ID)
	}
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_executions"))
	require.Equal(t, []string{got[0].ExecutionID}, noted)

	r.maps.meet = nil
	start.Also = func(*db.Batch, string) { t.Error("it was noted before") }
	again, err := r.StartForTurn(t.Context(), who, start)
	require.NoError(t, err)
	require.Equal(t, got[0].ID, again.ID)
}

// What stands above an execution bounds it. Where that cannot be read, it starts nothing, for nothing
// would count. It can still be written and ended.
func TestExecutionWhoseChainCannotBeReadOnlyEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Below","steps":[]}`)
	ref := r.triggered("below")
	r.exec(`UPDATE map_executions SET chain = '{"turns":"none"}' WHERE id = $1`, ref.ID)
	_, err := r.Head(t.Context(), ref)
	require.ErrorIs(t, err, execution.ErrChain)
	other, err := r.StartOther(t.Context(), flow.MapStart{MapWrites: flow.MapWrites{MapRef: ref}})
	require.NoError(t, err)
	require.True(t, other.Done, "the step fails, so that the execution comes to its end")
	require.Equal(t, stepmachine.CallFailed, other.End.Status)
	require.Equal(t, "INTERNAL_ERROR", other.End.Error.Code)
	by := actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: uuid.New()}
	err = r.AnswerForTurn(t.Context(), by, execution.TurnAnswer{ID: ref.ID, Data: json.RawMessage(`1`)})
	require.ErrorIs(t, err, execution.ErrChain)

	_, err = r.Look(t.Context(), flow.MapLook{MapWrites: flow.MapWrites{MapRef: ref}})
	require.NoError(t, err)
	_, err = r.Finish(t.Context(), flow.MapFinish{MapWrites: flow.MapWrites{MapRef: ref}, Finish: stepmachine.Finish{Status: stepmachine.StatusCancelled}})
	require.NoError(t, err)
	require.Equal(t, 1, r.number("SELECT count(*) FROM map_executions WHERE status = 'cancelled'"))

	// Once it can be read, the same process goes on.
	mended := r.triggered("mended")
	r.exec(`UPDATE map_executions SET chain = '{"turns":"none"}' WHERE id = $1`, mended.ID)
	_, err = r.Head(t.Context(), mended)
	require.Error(t, err)
	r.exec(`UPDATE map_executions SET chain = '{"maps":1}' WHERE id = $1`, mended.ID)
	e, err := r.Head(t.Context(), mended)
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Chain.Maps)
}
