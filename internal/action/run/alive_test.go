package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/flow"
)

// Temporal gives up a step while its call is at the provider, and runs it again.
func TestRepeatedStepWaitsForACallUnderWay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pay", "keyed", "read"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			sent, goOn := make(chan struct{}, 2), make(chan struct{})
			r.provider.replies(func(int64) run.Answer {
				sent <- struct{}{}
				<-goOn
				return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
			})
			zero := time.Duration(0)
			out, err := r.do(name, "e1", `{}`, func(q *run.Request) { q.Wait = &zero })
			require.NoError(t, err)
			<-sent
			ref := flow.RunRef{TenantID: r.tenant, RunID: out.Run.ID, Attempt: 1}
			governed, err := r.Govern(t.Context(), ref)
			require.NoError(t, err)
			require.False(t, governed.Done)
			again, err := r.Send(t.Context(), ref)
			require.NoError(t, err)
			require.False(t, again.Done)
			require.Positive(t, again.After)
			close(goOn)
			done, err := r.do(name, "e1", `{}`)
			require.NoError(t, err)
			require.Equal(t, run.StateExecuted, done.Run.State)
			require.EqualValues(t, 1, r.provider.effects.Load())
			again, err = r.Send(t.Context(), ref)
			require.NoError(t, err)
			require.True(t, again.Done)
			require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE outcome <> ''`))
		})
	}
}

// The clock of this host is ahead of the one that marks the calls under way.
func TestClockThatIsAheadCallsNothingLost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pay", "keyed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.claims(name, 1)[0]
			r.admin(`UPDATE runs SET state = 'sending', sends = 1, sent_at = now(), updated_at = now(), expires_at = now() + interval '1 hour'`)
			r.ahead.Store(int64(time.Minute))
			step, err := r.Send(t.Context(), one)
			require.NoError(t, err)
			require.False(t, step.Done)
			require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE state = 'sending' AND sends = 1`))
			require.Zero(t, r.provider.effects.Load())
		})
	}
}
