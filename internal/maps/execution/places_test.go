package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
)

// keyed is a Map of which so many executions of one key run at a time.
func (r *rig) keyed(limit int, whenFull string) *stepmachine.Program {
	r.t.Helper()
	return r.program(fmt.Sprintf(`{"schema_version":"1","name":"M","concurrency":{"key":"${trigger_data.key}","limit":%d,"when_full":%q},"steps":[]}`, limit, whenFull))
}

var keyedMap = uuid.MustParse(anotherMap)

// trigger triggers the Map, waits for nothing, and returns the execution.
func (r *rig) trigger(key string) execution.Execution {
	r.t.Helper()
	out, err := r.tryTrigger(key, "")
	require.NoError(r.t, err)
	return out.Execution
}

func (r *rig) tryTrigger(key, session string) (execution.Outcome, error) {
	who := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: uuid.New()}
	return r.Trigger(context.Background(), who, execution.Request{
		MapID: keyedMap, Payload: json.RawMessage(`{"key":"` + key + `"}`), Metadata: json.RawMessage(`{}`), SessionID: session, Wait: new(time.Duration),
	})
}

// ends ends an execution as its workflow would.
func (r *rig) ends(e execution.Execution) {
	r.t.Helper()
	_, err := r.Finish(r.t.Context(), flow.MapFinish{MapWrites: flow.MapWrites{MapRef: e.Ref()}, Finish: stepmachine.Finish{Status: stepmachine.StatusCompleted}})
	require.NoError(r.t, err)
}

// places returns the state of the place of each execution, in the order of their triggers; "" for
// none.
func (r *rig) places(all ...execution.Execution) (states []string) {
	r.t.Helper()
	for _, e := range all {
		var state string
		err := r.admin.QueryRow(context.Background(), "SELECT state FROM map_places WHERE execution = $1", e.ID).Scan(&state)
		if err != nil {
			require.ErrorIs(r.t, err, pgx.ErrNoRows)
		}
		states = append(states, state)
	}
	return states
}

func TestPlacesOfOneKeyAreGivenInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(2, "queue")
	var all []execution.Execution
	for range 5 {
		all = append(all, r.trigger("a"))
	}
	other := r.trigger("b")
	require.Equal(t, []string{"held", "held", "queued", "queued", "queued", "held"}, r.places(append(all, other)...))
	require.Len(t, r.engine.startedSince(), 3)
	r.ends(all[1])
	require.Equal(t, []string{"held", "", "held", "queued", "queued", "held"}, r.places(append(all, other)...))
	require.Equal(t, []string{all[2].WorkflowID}, r.engine.awaitStarted(t, 1))
	r.ends(all[1])
	require.Empty(t, r.engine.startedSince(), "an end that is repeated frees no second place")
	r.ends(all[0])
	r.ends(all[2])
	require.Equal(t, []string{"", "", "", "held", "held", "held"}, r.places(append(all, other)...))
	require.ElementsMatch(t, []string{all[3].WorkflowID, all[4].WorkflowID}, r.engine.awaitStarted(t, 2))
}

// A newer version allows more. Those that wait asked by the version before, so they keep its bound;
// the next ones do not pass them.
func TestSweeperGivesPlacesThatAreFree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "queue")
	first, second := r.trigger("a"), r.trigger("a")
	r.maps.program = r.keyed(2, "queue")
	third := r.trigger("a")
	require.Equal(t, []string{"held", "queued", "queued"}, r.places(first, second, third))
	require.NoError(t, r.SweepPlaces(t.Context()))
	require.Equal(t, []string{"held", "queued", "queued"}, r.places(first, second, third))
	// The process that ended the first died between: nobody was given the place.
	r.exec("DELETE FROM map_places WHERE execution = $1", first.ID)
	r.engine.startedSince()
	require.NoError(t, r.SweepPlaces(t.Context()))
	require.Equal(t, []string{"", "held", "held"}, r.places(first, second, third))
	require.Equal(t, []string{second.WorkflowID, third.WorkflowID}, r.engine.startedSince())
}

// One key for which more executions wait than a pass looks at keeps no other key from its turn.
func TestSweeperGivesPlacesBesideALongQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "queue")
	long := r.trigger("long")
	for range 3 {
		r.trigger("long")
	}
	r.exec(`WITH made AS (
		INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		SELECT gen_random_uuid(), e.tenant_id, 'exec_' || n, e.map_id, 1, 'x', false, '', '', '{}', 'key', '', '', n, now() FROM map_executions e, generate_series(1, 2000) n WHERE e.id = $1 RETURNING id)
		INSERT INTO map_places (tenant_id, execution, map_id, key, state, most) SELECT l.tenant_id, made.id, l.map_id, l.key, 'queued', 1 FROM made, map_places l WHERE l.execution = $1`, long.ID)
	first, second := r.trigger("short"), r.trigger("short")
	r.exec("DELETE FROM map_places WHERE execution = $1", first.ID)
	require.NoError(t, r.SweepPlaces(t.Context()))
	require.Equal(t, []string{"held"}, r.places(second))
}

// Keys that a pass does not reach are looked at by the next one.
func TestSweeperGoesOnWithTheNextKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "queue")
	first, last := r.trigger("a"), r.trigger("a")
	r.exec(`WITH made AS (
		INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		SELECT gen_random_uuid(), e.tenant_id, 'exec_' || n, e.map_id, 1, 'x', false, '', '', '{}', 'key', '', '', n, now() FROM map_executions e, generate_series(1, 1000) n WHERE e.id = $1 RETURNING id, workflow_id)
		INSERT INTO map_places (tenant_id, execution, map_id, key, state, most) SELECT l.tenant_id, made.id, l.map_id, convert_to(made.workflow_id, 'UTF8'), 'queued', 0 FROM made, map_places l WHERE l.execution = $1`, first.ID)
	r.exec("UPDATE map_places SET key = '\\xff' WHERE most = 1")
	r.exec("DELETE FROM map_places WHERE execution = $1", first.ID)
	require.NoError(t, r.SweepPlaces(t.Context()))
	require.Equal(t, []string{"queued"}, r.places(last))
	require.NoError(t, r.SweepPlaces(t.Context()))
	require.Equal(t, []string{"held"}, r.places(last))
}

// The caller of a newer execution dies before it has told the older one. The sweeper tells it.
func TestReplacedExecutionIsToldAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "replace")
	older := r.trigger("a")
	r.trigger("a")
	require.Equal(t, []string{older.WorkflowID}, r.engine.take())
	r.exec("UPDATE map_executions SET news_at = news_at - interval '1 minute'")
	require.NoError(t, r.SweepNews(t.Context()))
	require.Equal(t, []string{older.WorkflowID}, r.engine.take())
	r.look(older.Ref(), nil)
	require.NoError(t, r.SweepNews(t.Context()))
	require.Empty(t, r.engine.take(), "it has read that it is to end")
}

// One that waits is cancelled while another process gives it a place.
func TestCancelledExecutionGetsNoPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "queue")
	first, second, third := r.trigger("a"), r.trigger("a"), r.trigger("a")
	dropping, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dropping.Close(context.Background()) })
	tx, err := dropping.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE map_places SET state = 'dropped' WHERE execution = $1", second.ID)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.ends(first)
	}()
	require.Eventually(t, func() bool {
		return r.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	<-ended
	require.Equal(t, []string{"", "dropped", "held"}, r.places(first, second, third))
}

// other has a step of the execution start the Map.
func (r *rig) other(e execution.Execution, attempt int, key string) flow.MapOfMap {
	r.t.Helper()
	at, err := r.StartOther(r.t.Context(), starts(e.Ref(), attempt, `{"key":"`+key+`"}`))
	require.NoError(r.t, err)
	return at
}

// A version that runs may start Maps that the published one no longer does, and so itself. It would
// wait for the place that it has.
func TestExecutionDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, whenFull := range []string{"queue", "replace"} {
		r.maps.program = r.keyed(1, whenFull)
		parent := r.trigger(whenFull)
		at := r.other(parent, 1, whenFull)
		require.True(t, at.Done)
		require.Equal(t, string(fault.CodeConflict), at.End.Error.Code)
		require.Contains(t, at.End.Error.Detail, "wait for itself")
		require.False(t, r.other(parent, 2, "other "+whenFull).Done, "another key")
	}
	r.maps.program = r.keyed(2, "queue")
	parent, stranger := r.trigger("a"), r.trigger("a")
	at := r.other(parent, 1, "a")
	require.False(t, at.Done, "the other execution of the key will end")
	r.ends(stranger)
	require.Equal(t, 2, r.number("SELECT count(*) FROM map_places WHERE state = 'held' AND most = 2"))
}

// Two executions each have the place that a step of the other one waits for.
func TestExecutionsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "queue")
	a, b := r.trigger("a"), r.trigger("b")
	require.False(t, r.other(a, 1, "b").Done, "it waits for b")
	at := r.other(b, 1, "a")
	require.True(t, at.Done)
	require.Equal(t, string(fault.CodeConflict), at.End.Error.Code)
	free := starts(b.Ref(), 2, `{"key":"a"}`)
	free.Start.Wait = false
	started, err := r.StartOther(t.Context(), free)
	require.NoError(t, err)
	require.Nil(t, started.End.Error, "a step that does not wait lets b end")
}

// The name of an execution that failed is free only if the Maps that it has started had no effect
// either: a repeat would start them again.
func TestNameIsKeptWhereAnotherMapHadAnEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"M","steps":[]}`)
	for i, c := range []struct {
		child string
		wrote bool
		kept  bool
	}{
		{"status = 'failed', finished_at = now()", false, false},
		{"status = 'failed', finished_at = now(), actions = 1", false, true},
		{"status = 'failed', finished_at = now(), asked = true", false, true},
		{"status = 'running'", false, true},
		{"status = 'failed', finished_at = now()", true, true},
	} {
		name := strconv.Itoa(i)
		out, err := r.tryTrigger("a", name)
		require.NoError(t, err)
		child := r.other(out.Execution, 1, "a").Child
		r.exec("UPDATE map_executions SET "+c.child+" WHERE id = $1", child)
		_, err = r.Finish(t.Context(), flow.MapFinish{
			MapWrites: flow.MapWrites{MapRef: out.Execution.Ref()}, Wrote: c.wrote,
			Finish: stepmachine.Finish{Status: stepmachine.StatusFailed, Error: stepmachine.NewError("SOME_CODE", "")},
		})
		require.NoError(t, err)
		again, err := r.tryTrigger("a", name)
		require.NoError(t, err)
		require.Equal(t, c.kept, again.Cached, c.child)
	}
}

// crowdedSandbox has too much to evaluate.
type crowdedSandbox struct{}

func (crowdedSandbox) Spend(int) bool { return true }

func (crowdedSandbox) Run(context.Context, string, expression.Roots) ([]json.RawMessage, error) {
	return nil, &expression.BusyError{Reason: turns.ErrCrowded, Line: func() time.Duration { panic("who may not come again stands in no line") }}
}

// The payload is not wrong where the key could not be evaluated yet, so a step that starts the Map goes on
// later, and a caller may repeat the trigger.
func TestConcurrencyKeyThatWaitsForTheSandboxIsNoFaultOfThePayload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Service = r.service(nothing{sandbox: crowdedSandbox{}})
	r.maps.program = r.program(`{"schema_version":"1","name":"M","concurrency":{"key":"${[trigger_data.key] | map(.) | first}","limit":1},"steps":[]}`)
	_, err := r.tryTrigger("k", "s")
	require.Equal(t, fault.CodeServiceUnavailable, fault.As(err).Code)
	require.Equal(t, 5*time.Second, fault.As(err).RetryAfter)
	require.Equal(t, 0, r.number("SELECT count(*) FROM map_executions"))
}

// An execution from before empty keys were refused goes on: nobody can give it another payload.
func TestRetryTakesAnEmptyConcurrencyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reads := func(member string) *stepmachine.Program {
		return r.program(`{"schema_version":"1","name":"M","concurrency":{"key":"${trigger_data.` + member + `}","limit":1},"steps":[{"id":"no","type":"raise","error":{"code":"NO"}}]}`)
	}
	r.maps.program = reads("key")
	begun := r.trigger("k")
	x, commands := r.begins(begun.Ref())
	r.finishes(begun.Ref(), x, commands)
	r.maps.program = reads("another")
	_, err := r.tryTrigger("k", "s")
	require.Equal(t, fault.CodeInvalidArgs, fault.As(err).Code)
	user := actor.Actor{Kind: actor.User, ID: uuid.New(), TenantID: r.tenant}
	failed, err := r.Get(t.Context(), user, begun.ExecutionID)
	require.NoError(t, err)
	require.True(t, failed.KeepsState)
	_, err = r.Retry(t.Context(), user, failed, execution.Retry{})
	require.NoError(t, err)
}
