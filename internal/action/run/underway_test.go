package run_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/flow"
)

func noWait(q *run.Request) { none := time.Duration(0); q.Wait = &none }

// claims makes runs that no workflow drives; the test makes their steps.
func (r *rig) claims(verbName string, n int) []flow.RunRef {
	r.t.Helper()
	r.engine.dead.Store(true)
	var refs []flow.RunRef
	for i := range n {
		out, err := r.do(verbName, fmt.Sprintf("%s-%d-%s", verbName, i, uuid.NewString()), `{}`, noWait)
		require.NoError(r.t, err)
		refs = append(refs, ref(out.Run))
		_, err = r.Govern(r.t.Context(), ref(out.Run))
		require.NoError(r.t, err)
	}
	return refs
}

func (r *rig) states() (sending, claimed int) {
	r.t.Helper()
	return r.count(`SELECT count(*) FROM runs WHERE state = 'sending'`), r.count(`SELECT count(*) FROM runs WHERE state = 'claimed'`)
}

// A provider that does not answer gets its share of the calls that a process makes at once.
// The rest waits as claimed, no step waits for any of them, and other calls are sent.
func TestProviderThatHangsKeepsOnlyItsShare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goOn := make(chan struct{})
	r.provider.replies(func(int64) run.Answer {
		<-goOn
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	// Of 32 calls at once a provider of a tenant gets two.
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.Sends, c.Patience = 32, time.Millisecond })
	refs := r.claims("pay", 7)
	for _, one := range refs {
		step, err := r.Send(t.Context(), one)
		require.NoError(t, err)
		require.True(t, step.UnderWay)
		require.Positive(t, step.After)
	}
	require.Eventually(t, func() bool { return r.provider.effects.Load() == 2 }, 20*time.Second, 10*time.Millisecond)
	sending, claimed := r.states()
	require.Equal(t, 2, sending)
	require.Equal(t, 5, claimed)

	close(goOn)
	require.Eventually(t, func() bool {
		return r.count(`SELECT count(*) FROM runs WHERE state = 'executed'`) == len(refs) && r.engine.nudged.Load() >= int64(len(refs))
	}, 20*time.Second, 20*time.Millisecond, "each is sent in its turn, and its workflow is told")
	patient := r.another()
	for _, one := range refs {
		step, err := patient.Send(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
	}
	require.EqualValues(t, len(refs), r.provider.effects.Load())
}

// The provider asks for a pause in an answer that no step has waited for. The step that reads
// it may be lost, and is repeated, perhaps by another process.
func TestPauseAfterALateAnswerIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goOn := make(chan struct{})
	r.provider.replies(func(n int64) run.Answer {
		<-goOn
		if n == 1 {
			return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: 20 * time.Second}
		}
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	one := r.claims("pay", 1)[0]
	r.admin(`UPDATE runs SET give_up_at = now() + interval '60 seconds'`)
	_, err := r.Govern(t.Context(), one)
	require.NoError(t, err)
	_, err = r.Govern(t.Context(), one)
	require.NoError(t, err)
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.True(t, step.UnderWay)
	close(goOn)
	require.Eventually(t, func() bool { return r.engine.nudged.Load() > 0 }, 20*time.Second, 10*time.Millisecond)
	for _, process := range []*run.Service{r.Service, r.Service, r.another()} {
		step, err = process.Send(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, run.StateClaimed, step.State)
		require.Greater(t, step.After, time.Second)
		require.EqualValues(t, 1, r.provider.effects.Load(), "the pause was not over")
	}
	r.ahead.Store(int64(20 * time.Second))
	step, err = r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
}

// Postgres has marked the run, and its answer to that was lost. This process knows that it
// has not sent, so the outcome is not unknown.
func TestMarkWhoseAnswerWasLostIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("pay", 1)[0]
	r.LoseMark(one, 1, r.markRecord())
	r.admin(`UPDATE runs SET state = 'sending', sends = 1, sent_at = now(), updated_at = now()`)
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	require.Zero(t, r.provider.effects.Load())
	step, err = r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// A process was frozen between its mark and the first byte. Meanwhile the call was given up,
// and perhaps run again. Its first byte must not leave.
func TestCallThatWasGivenUpMeanwhileDoesNotBegin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	frozen := func(mayBegin func() bool) {
		require.True(t, mayBegin())
		r.admin(`UPDATE runs SET state = 'outcome_unknown', finished_at = now()`)
		require.Eventually(t, func() bool { return !mayBegin() }, 20*time.Second, 10*time.Millisecond)
	}
	r.provider.dialing.Store(&frozen)
	one := r.claims("pay", 1)[0]
	_, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		step, err := r.Send(t.Context(), one)
		return err == nil && step == flow.Step{State: run.StateOutcomeUnknown, Done: true}
	}, 20*time.Second, 10*time.Millisecond)
	require.Zero(t, r.provider.effects.Load())
}

// Another machine's clock says when the pause began. A process whose clock is behind that one
// still waits for the pause only once.
func TestPauseIsNotLongerWhereTheClockIsBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ahead.Store(-int64(time.Minute))
	r.provider.replies(func(n int64) run.Answer {
		if n == 1 {
			return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: 5 * time.Second}
		}
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	one := r.claims("pay", 1)[0]
	for range 3 {
		step, err := r.Send(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, run.StateClaimed, step.State)
		require.InDelta(t, 5*time.Second, step.After, float64(4*time.Second))
	}
	require.EqualValues(t, 1, r.provider.effects.Load(), "the pause was not over")
	r.ahead.Add(int64(5 * time.Second))
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
}
