package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

func expiresIn(d time.Duration) func(*run.Request) {
	return func(q *run.Request) { q.ExpiresIn = &d }
}

// Workers were away for longer than the caller wanted the call.
func TestRunIsNotSentAfterItsTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		more []func(*run.Request)
		late time.Duration
	}{
		{"default", []func(*run.Request){noWait}, 16 * time.Minute},
		{"asked for", []func(*run.Request){noWait, expiresIn(time.Minute)}, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.engine.dead.Store(true)
			out, err := r.do("pay", "one", `{}`, c.more...)
			require.NoError(t, err)
			r.ahead.Store(int64(c.late))
			step, err := r.Govern(t.Context(), ref(out.Run))
			require.NoError(t, err)
			require.Equal(t, flow.Step{State: run.StateRefused, Done: true}, step)
			x := r.read(out.Run)
			require.Equal(t, fault.CodeRunExpired, x.ErrorCode)
			require.Zero(t, r.provider.effects.Load())

			r.ahead.Store(0)
			r.engine.dead.Store(false)
			out, err = r.do("pay", "one", `{}`)
			require.NoError(t, err)
			require.Equal(t, run.StateExecuted, out.Run.State, "the id is free")
		})
	}
}

// The time ends between the judgement and the sending: the gate is closed.
func TestGateIsClosedAfterTheTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("pay", 1)[0]
	r.admin(`UPDATE runs SET expires_at = now()`)
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateRefused, Done: true}, step)
	require.Zero(t, r.provider.effects.Load())
}

func TestTimeOfAHeldCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	in := 20 * time.Minute
	_, err := r.do("pay", "short", `{}`, expiresIn(in))
	require.NoError(t, err)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals a JOIN runs r ON r.id = a.run_id WHERE a.expires_at = r.expires_at`),
		"people are asked only as long as the caller wants the call")

	x := r.held("pay", "long", `{}`)
	r.admin(`UPDATE runs SET expires_at = now() WHERE id = $1`, x.ID)
	require.True(t, r.decide(x, r.user("approver"), "approve").Closed)
	require.Equal(t, run.StateExecuted, r.wake(x).State, "the approval gives it fifteen minutes anew")
}

// Between two attempts the world changes. The second goes out only as the call is judged
// then.
func TestRetryIsJudgedAgain(t *testing.T) {
	t.Parallel()
	limited := run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: time.Second}
	lost := run.Answer{Phase: attempt.Sent}
	blocked := func(r *rig) { r.policies(rule(governance.ActionBlock, "keyed")) }
	asked := func(r *rig) { r.policies(rule(governance.ActionRequireApproval, "keyed")) }
	changed := func(r *rig) { other := "another address"; r.targets.schema.Store(&other) }
	for _, c := range []struct {
		name   string
		first  run.Answer
		change func(*rig)
		state  run.State
		sends  int64
	}{
		{"refused, nothing changed", limited, func(*rig) {}, run.StateExecuted, 2},
		{"refused, then blocked", limited, blocked, run.StateBlocked, 1},
		{"refused, then needs approval", limited, asked, run.StatePending, 1},
		{"refused, then another request", limited, changed, run.StateExecuted, 2},
		{"lost, nothing changed", lost, func(*rig) {}, run.StateExecuted, 2},
		{"lost, then blocked", lost, blocked, run.StateOutcomeUnknown, 1},
		{"lost, then needs approval", lost, asked, run.StateOutcomeUnknown, 1},
		{"lost, then another request", lost, changed, run.StateOutcomeUnknown, 1},
		{"lost, then too late", lost, func(r *rig) { r.ahead.Store(int64(time.Hour)) }, run.StateOutcomeUnknown, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.provider.replies(func(n int64) run.Answer {
				if n == 1 {
					return c.first
				}
				return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
			})
			one := r.claims("keyed", 1)[0]
			step, err := r.Send(t.Context(), one)
			require.NoError(t, err)
			require.Equal(t, run.StateClaimed, step.State)
			c.change(r)
			r.ahead.Add(int64(step.After))
			step, err = r.Send(t.Context(), one)
			require.NoError(t, err)
			require.Equal(t, c.state, step.State)
			require.Equal(t, c.sends, r.provider.effects.Load())
		})
	}
}

// A provider, or the credential, that changes between the judgement and the sending closes
// the gate. The call is judged again.
func TestChangeOfTheProviderClosesTheGate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := time.Now().Add(-time.Hour)
	r.targets.read.Store(&run.Read{ProviderAt: &old})
	one := r.claims("pay", 1)[0]
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	require.Positive(t, step.After)
	require.Zero(t, r.provider.effects.Load())

	r.targets.read.Store(&run.Read{})
	for range 2 { // the first is closed for the judgement that was made meanwhile
		step, err = r.Send(t.Context(), one)
		require.NoError(t, err)
	}
	require.Equal(t, run.StateExecuted, step.State)
}

// The clock of Postgres is ahead of that of this host, and closes the gate.
func TestRunThatIsLateByTheClockOfPostgresEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.claims("pay", 1)[0]
	r.ahead.Store(-int64(time.Hour))
	r.admin(`UPDATE runs SET expires_at = now()`)
	step, err := r.Send(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateRefused, Done: true}, step)
	require.Equal(t, "RUN_EXPIRED", r.text(`SELECT error_code FROM runs`))
	require.Zero(t, r.provider.effects.Load())
}
