package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/approval"
)

// markRecord writes an audit record as a mark does, and returns its id.
func (r *rig) markRecord() uuid.UUID {
	r.t.Helper()
	id := uuid.Must(uuid.NewV7())
	r.admin(`INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action) VALUES ($1, $2, 'key', '', 'run.allowed')`, id, r.tenant)
	return id
}

// A process could not mark its attempt. Another one marked and sent it, as the same attempt of
// the run. It is not taken back: that would send it twice.
func TestMarkOfAnotherProcessIsNotTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("pay", 1)[0]
	r.LoseMark(one, 1, uuid.New())
	r.admin(`UPDATE runs SET state = 'sending', sends = 1, sent_at = now(), updated_at = now()`)
	for range 3 {
		step, err := r.Send(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, run.StateSending, step.State)
	}
	require.Zero(t, r.provider.effects.Load())
	require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE state = 'sending'`))
}

// hang makes calls of other runs that take the provider's whole share, until goOn is closed.
func (r *rig) hang(verbName string, goOn <-chan struct{}) {
	r.t.Helper()
	r.provider.replies(func(int64) run.Answer {
		<-goOn
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	// Of 32 calls at once a provider of a tenant gets two.
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.Sends, c.Patience = 32, time.Millisecond })
	for _, one := range r.claims(verbName, 2) {
		_, err := r.Send(r.t.Context(), one)
		require.NoError(r.t, err)
	}
	require.Eventually(r.t, func() bool { return r.provider.effects.Load() == 2 }, 20*time.Second, 10*time.Millisecond)
}

func (r *rig) eventually(ref flow.RunRef, state run.State) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		_, err := r.Send(r.t.Context(), ref)
		return err == nil && r.text(`SELECT state FROM runs WHERE id = '`+ref.RunID.String()+`'`) == string(state)
	}, 20*time.Second, 20*time.Millisecond)
}

// Its provider is busy when the step is repeated after a lost mark. The process still knows
// that it has not sent.
func TestLostMarkIsRememberedWhileTheRunWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goOn := make(chan struct{})
	r.hang("read", goOn)
	one := r.claims("pay", 1)[0]
	r.LoseMark(one, 1, r.markRecord())
	r.admin(`UPDATE runs SET state = 'sending', sends = 1, sent_at = now(), updated_at = now() - interval '1 minute' WHERE id = $1`, one.RunID)
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.True(t, step.UnderWay)
	close(goOn)
	r.eventually(one, run.StateExecuted)
}

// A run whose turn does not come in time is ended then, and not when its turn comes.
func TestRunThatWaitsForItsTurnExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goOn := make(chan struct{})
	defer close(goOn)
	r.hang("read", goOn)
	one := r.claims("pay", 1)[0]
	r.admin(`UPDATE runs SET expires_at = now() + interval '1 second' WHERE id = $1`, one.RunID)
	r.Forget(one)
	r.eventually(one, run.StateRefused)
	require.Equal(t, "RUN_EXPIRED", r.text(`SELECT error_code FROM runs WHERE id = '`+one.RunID.String()+`'`))
	require.EqualValues(t, 2, r.provider.effects.Load())
}

// A bug in one send must not end the process: the next one would find the same run.
func TestPanicOfASendIsAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("pay", 1)[0]
	r.provider.replies(func(int64) run.Answer { panic("a bug") })
	_, err := r.Send(t.Context(), one)
	require.Error(t, err)
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, run.StateSending, step.State, "the call has begun, and its mark is recent")
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// A process was frozen while it sent. Another one has begun the next attempt meanwhile. What
// the first one heard says nothing about that attempt.
func TestAnswerToAnEarlierAttemptEndsNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]run.Answer{
		"refused": {Phase: attempt.Answered, Status: 400, Complete: true},
		"failed":  {Phase: attempt.Answered, Status: 503, Complete: true},
		"limited": {Phase: attempt.Answered, Status: 429, Complete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.claims("keyed", 1)[0]
			r.provider.replies(func(int64) run.Answer {
				r.admin(`UPDATE runs SET sends = 2, maybe_sent = true, in_doubt = true, updated_at = now()`)
				return answer
			})
			step, err := r.Send(t.Context(), one)
			require.NoError(t, err)
			require.False(t, step.Done)
			require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE state = 'sending' AND sends = 2`))
		})
	}
}

// Postgres has made the run claimed again, and its answer to that was lost. The workflow goes
// on, after the pause that the provider asks for.
func TestRetryThatWasRecordedBeforeGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("keyed", 1)[0]
	r.admin(`UPDATE runs SET give_up_at = now() + interval '60 seconds'`)
	r.Forget(one)
	r.provider.replies(func(int64) run.Answer {
		r.admin(`UPDATE runs SET state = 'claimed', updated_at = now()`)
		return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: 7 * time.Second}
	})
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateClaimed, After: 7 * time.Second}, step)
}

// A run is held when its turn has come. Its workflow hears of that by another process. Much
// later, when it is approved, the first process does not answer from its memory.
func TestApprovalIsNotReadFromMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goOn := make(chan struct{})
	r.hang("read", goOn)
	one := r.claims("pay", 1)[0]
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.True(t, step.UnderWay)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	told := r.engine.nudged.Load()
	close(goOn)
	require.Eventually(t, func() bool {
		return r.count(`SELECT count(*) FROM runs WHERE state = 'pending_approval'`) == 1 && r.engine.nudged.Load() > told
	}, 20*time.Second, 10*time.Millisecond)
	r.admin(`UPDATE runs SET state = 'cancelled', cancel_requested = true WHERE id = $1`, one.RunID)
	require.Eventually(t, func() bool {
		step, err = r.Send(t.Context(), one)
		return err == nil && !step.UnderWay
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, flow.Step{State: run.StateCancelled, Done: true}, step)
}

// A run that waits for people fails by a fault of ours. Its approval does not wait for ever.
func TestGiveUpOfAHeldRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	r.admin(`UPDATE runs SET args = 's1.broken' WHERE id = $1`, x.ID)
	for ahead, want := range map[time.Duration]run.State{0: run.StatePending, 24*time.Hour + 5*time.Minute: run.StatePending} {
		r.ahead.Store(int64(ahead))
		step, err := r.GiveUp(t.Context(), ref(x))
		require.NoError(t, err)
		require.Equal(t, flow.Step{State: want}, step)
	}
	r.ahead.Store(int64(25 * time.Hour))
	step, err := r.GiveUp(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateExpired, Done: true}, step)
	require.Equal(t, "expired", r.status(*x.ApprovalID))
}

// An operator ended the workflow of a held run whose row does not open.
func TestHeldRunThatDoesNotOpenIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	r.admin(`UPDATE runs SET args = 's1.broken' WHERE id = $1`, x.ID)
	err := r.Unattended(t.Context(), approval.Waiting{TenantID: r.tenant, ID: *x.ApprovalID, RunID: &x.ID, WorkflowID: x.WorkflowID}, true)
	require.NoError(t, err)
	require.Equal(t, "cancelled", r.status(*x.ApprovalID))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE state = 'refused'`))
}
