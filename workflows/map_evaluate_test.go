package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// crowdedFor has the tenant evaluate too much for so long. It returns which expressions are asked for until then.
func crowdedFor(w *mapWorld, env *testsuite.TestWorkflowEnvironment, long time.Duration) map[int]bool {
	asked := map[int]bool{}
	env.RegisterActivityWithOptions(func(_ context.Context, in flow.MapEvaluation) (flow.MapEvaluated, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.passed() < long {
			asked[in.Ask.Number] = true
			return flow.MapEvaluated{Later: 10 * time.Minute}, nil
		}
		return flow.MapEvaluated{Evaluated: stepmachine.Evaluated{Ref: in.Ask.Ref, Number: in.Ask.Number, Value: stepmachine.Of(json.RawMessage(`3`))}}, nil
	}, activity.RegisterOptions{Name: string(flow.EvaluateInMap)})
	return asked
}

// One execution asks for a few evaluations at a time, so that it cannot fill the line of its tenant.
func TestMapRunHasFewExpressionsEvaluatedAtOnce(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"each","type":"foreach","mode":"parallel","concurrency":50,"items":[0,1,2,3,4,5,6,7,8,9],"steps":[
		{"id":"n","type":"transform","expr":"${[range(3)] | length}"}]}]`)
	var asked map[int]bool
	w.run(func(env *testsuite.TestWorkflowEnvironment) { asked = crowdedFor(w, env, time.Hour) })
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Len(t, asked, 2)
}

// People do not wait for an evaluation that waits for its turn, and neither does what undoes the steps: it
// has expressions too.
func TestMapRunThatIsCancelledGivesUpItsEvaluations(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"made","type":"verb","verb":"shop:reserve","args":{},"compensate":{"verb":"shop:release","args":{"n":"${[range(3)] | length}"}}},
		{"id":"p","type":"parallel","branches":[
			{"id":"a","steps":[{"id":"n","type":"transform","expr":"${[range(3)] | length}"}]},
			{"id":"b","steps":[{"id":"m","type":"transform","expr":"${[range(3)] | length}"}]},
			{"id":"c","steps":[{"id":"o","type":"transform","expr":"${[range(3)] | length}"}]}]}]`)
	w.news = func() flow.MapNews { return flow.MapNews{Cancel: w.passed() >= time.Minute} }
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in flow.MapEvaluation) (flow.MapEvaluated, error) {
			if w.passed() >= time.Second && w.passed() < time.Minute || in.Ask.Ref.Path == "/steps/1/branches/0/steps/0" {
				return flow.MapEvaluated{Later: 10 * time.Minute}, nil
			}
			return flow.MapEvaluated{Evaluated: stepmachine.Evaluated{Ref: in.Ask.Ref, Number: in.Ask.Number, Value: stepmachine.Of(json.RawMessage(`3`))}}, nil
		}, activity.RegisterOptions{Name: string(flow.EvaluateInMap)})
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Minute)
	})
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
	require.Equal(t, 1, w.finish.Compensated)
	require.Less(t, w.passed(), 2*time.Minute)
}

// Nobody waits for the expressions of an attempt that another hand has ended.
func TestMapRunThatIsOverLeavesItsEvaluations(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"n","type":"transform","expr":"${[range(3)] | length}"}]`)
	w.news = func() flow.MapNews { return flow.MapNews{Over: w.passed() >= time.Minute} }
	require.Nil(t, w.history(flow.MapInput{MapRef: flow.MapRef{ID: uuid.Must(uuid.NewV7())}}, func(env *testsuite.TestWorkflowEnvironment) {
		crowdedFor(w, env, time.Hour)
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(flow.SignalRecheck, nil) }, time.Minute)
	}))
	require.Less(t, w.passed(), 2*time.Minute)
}

// A branch goes on in a new history, also where others wait for the turn of their evaluations.
func TestMapRunLeavesEvaluationsThatWaitToItsNextHistory(t *testing.T) {
	t.Parallel()
	const expr = `"type":"transform","expr":"${[range(3)] | length}"}]}`
	w := newMapWorld(t, `[{"id":"p","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"l",`+expr+`,{"id":"b","steps":[{"id":"m",`+expr+`,{"id":"c","steps":[{"id":"n",`+expr+`,
		{"id":"d","steps":[{"id":"w","type":"wait","for":"1s"},{"id":"a","type":"verb","verb":"shop:reserve","args":{}},
			{"id":"x","type":"wait","for":"1s"},{"id":"s","type":"verb","verb":"shop:ship","args":{}}]}]}]`)
	w.answers["shop:reserve"] = func(int) flow.MapCallEnd {
		w.grown.Store(long)
		return executed(`{}`)
	}
	crowd := func(env *testsuite.TestWorkflowEnvironment) { crowdedFor(w, env, 2*time.Hour) }
	next := w.history(flow.MapInput{MapRef: flow.MapRef{ID: uuid.Must(uuid.NewV7())}}, crowd)
	require.NotNil(t, next, "a new history begins")
	require.Less(t, w.passed(), time.Minute, "it does not wait for the evaluations")
	require.NotContains(t, w.ended, "shop:ship")
	require.Nil(t, w.history(*next, crowd))
	require.Equal(t, stepmachine.StatusCompleted, w.finish.Status)
	require.Contains(t, w.ended, "shop:ship")
	require.Less(t, w.ended["shop:ship"], 2*time.Hour, "it does not wait for the evaluations")
	require.GreaterOrEqual(t, w.passed(), 2*time.Hour)
}

// An evaluation that lasts ends with the cancellation, and nobody waits for its activity.
func TestMapRunThatIsCancelledEndsItsEvaluations(t *testing.T) {
	t.Parallel()
	w := newMapWorld(t, `[{"id":"n","type":"transform","expr":"${[range(3)] | length}"}]`)
	began := make(chan struct{})
	w.news = func() flow.MapNews {
		select {
		case <-began:
			return flow.MapNews{Cancel: true}
		default:
			return flow.MapNews{}
		}
	}
	w.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(ctx context.Context, _ flow.MapEvaluation) (flow.MapEvaluated, error) {
			close(began)
			env.SignalWorkflow(flow.SignalRecheck, nil)
			<-ctx.Done()
			return flow.MapEvaluated{}, ctx.Err()
		}, activity.RegisterOptions{Name: string(flow.EvaluateInMap)})
	})
	require.Equal(t, stepmachine.StatusCancelled, w.finish.Status)
}
