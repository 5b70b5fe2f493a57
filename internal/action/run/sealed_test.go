package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
)

// rawRuns is what the rows have in the columns that are sealed.
const rawRuns = `SELECT string_agg(concat_ws(' ', args, edited_args, result), ' ' ORDER BY id) FROM runs`

func TestArgumentsAndResultsAreSealedInTheRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"note":"canary-result"}`)}
	})
	first, err := r.do("pay", "one", `{"note":"canary-args"}`)
	require.NoError(t, err)
	again, err := r.do("pay", "one", `{"note":"canary-args"}`)
	require.NoError(t, err)
	require.True(t, again.Cached)
	for _, out := range []run.Outcome{first, again} {
		require.JSONEq(t, `{"note":"canary-result"}`, string(out.Run.Result))
	}
	require.JSONEq(t, `{"note":"canary-args"}`, r.provider.last())
	_, err = r.do("pay", "two", `{"note":"canary-args"}`, func(q *run.Request) { q.DryRun = true })
	require.NoError(t, err)
	raw := r.text(rawRuns)
	require.Contains(t, raw, "s1.")
	require.NotContains(t, raw, "canary")
}

func TestEditedArgumentsAreSealedInTheRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{"note":"canary"}`)
	edit, err := r.SealEdit(t.Context(), r.tenant, x.ID.String(), json.RawMessage(`{"note":"canary-edited"}`))
	require.NoError(t, err)
	require.NotContains(t, edit, "canary")
	require.Empty(t, r.decide(x, r.user("owner"), "approve", edit).Code)
	require.NotContains(t, r.text(rawRuns), "canary")
	now := r.wake(x)
	require.Empty(t, r.decide(now, r.user("approver"), "approve").Code)
	require.Equal(t, run.StateExecuted, r.wake(now).State)
	require.JSONEq(t, `{"note":"canary-edited"}`, r.provider.last())
	require.NotContains(t, r.text(rawRuns), "canary")
}

// A claim draws an id for a new run, and finds an old one: its arguments are sealed for that.
func TestIDClaimedAgainReadsItsNewArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "one", `{"bad":true}`)
	require.NoError(t, err)
	out, err := r.do("pay", "one", `{"note":"canary"}`, func(q *run.Request) { q.IdempotencyKey = "two" })
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	now, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "two")
	require.NoError(t, err)
	require.Equal(t, out.Run.ID, now.ID)
	require.JSONEq(t, `{"note":"canary"}`, string(now.Args))
	require.NotContains(t, r.text(rawRuns), "canary")
}

func TestRowCopiedToAnotherRunDoesNotOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"one", "two"} {
		_, err := r.do("pay", id, `{"id":"`+id+`"}`)
		require.NoError(t, err)
	}
	r.swapped("args")
	two, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "two")
	require.NoError(t, err)
	require.Equal(t, []string{"args"}, two.Unreadable)
	require.Empty(t, two.Args)
	one, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "one")
	require.NoError(t, err)
	require.Empty(t, one.Unreadable)
}

// keys are those of the testkit until away is set.
type keys struct{ away atomic.Pointer[error] }

func (k *keys) Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error) {
	if err := k.away.Load(); err != nil {
		return nil, *err
	}
	return testkit.Keys{}.Key(ctx, tenant)
}

// swapped gives every run the sealed text of another place, which does not open.
func (r *rig) swapped(columns ...string) {
	r.t.Helper()
	other, err := r.keys.Key(r.t.Context(), uuid.New())
	require.NoError(r.t, err)
	for _, c := range columns {
		r.admin(`UPDATE runs SET `+c+` = $1 WHERE `+c+` IS NOT NULL AND execution_id <> 'one'`, other.Seal(datakey.Place{}, []byte(`{}`)))
	}
}

func TestRunThatDoesNotOpenIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "two", `{"n":1}`)
	r.swapped("args")
	done, err := r.Cancel(t.Context(), actor.SystemOf(r.tenant), "two")
	require.NoError(t, err)
	require.Equal(t, run.StateCancelled, done.State)
	require.Equal(t, "cancelled", r.status(*x.ApprovalID))
	_, err = r.Cancel(t.Context(), actor.SystemOf(r.tenant), "two")
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
}

func TestRunThatDoesNotOpenIsResolved(t *testing.T) {
	t.Parallel()
	broken := errors.New("the key is gone")
	for name, c := range map[string]struct {
		keyGone bool
		res     run.Resolution
		want    run.State
		code    fault.Code
	}{
		"as executed":                          {res: run.Resolution{Executed: true}, want: run.StateExecuted},
		"with a result":                        {res: run.Resolution{Executed: true, Result: json.RawMessage(`{"n":1}`)}, want: run.StateExecuted},
		"as failed":                            {res: run.Resolution{}, want: run.StateFailed},
		"as executed, by a key that is gone":   {keyGone: true, res: run.Resolution{Executed: true}, want: run.StateExecuted},
		"as failed, by a key that is gone":     {keyGone: true, res: run.Resolution{}, want: run.StateFailed},
		"with a result, by a key that is gone": {keyGone: true, res: run.Resolution{Executed: true, Result: json.RawMessage(`{"n":1}`)}, code: fault.CodeExecutionUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.loses()
			out, err := r.do("pay", "two", `{"n":1}`)
			require.NoError(t, err)
			require.Equal(t, run.StateOutcomeUnknown, out.Run.State)
			r.swapped("args")
			if c.keyGone {
				r.keys.away.Store(&broken)
			}
			c.res.Reason = "seen at the provider"
			done, err := r.Resolve(t.Context(), actor.SystemOf(r.tenant), "two", c.res)
			if c.code != "" {
				require.True(t, fault.HasCode(err, c.code), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, done.State)
			require.Equal(t, []string{"args"}, done.Unreadable)
			if c.res.Result != nil {
				require.JSONEq(t, string(c.res.Result), string(done.Result))
			}
		})
	}
}

func TestRepeatOfARunThatDoesNotOpenIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "two", `{"n":1}`)
	require.NoError(t, err)
	r.swapped("args")
	out, err := r.do("pay", "two", `{"n":1}`)
	require.NoError(t, err, "the same call does not need the stored arguments")
	require.True(t, out.Cached)
	_, err = r.do("pay", "two", `{"n":2}`)
	require.True(t, fault.HasCode(err, fault.CodeExecutionUnreadable), "%v", err)
	r.swapped("result")
	_, err = r.do("pay", "two", `{"n":1}`)
	require.True(t, fault.HasCode(err, fault.CodeExecutionUnreadable), "%v", err)
	require.Equal(t, "two", fault.As(err).ExecutionID)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestHeldRunThatDoesNotOpenCanOnlyBeRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "two", `{"n":1}`)
	r.swapped("args")
	_, err := r.SealEdit(t.Context(), r.tenant, x.ID.String(), json.RawMessage(`{"n":2}`))
	require.True(t, fault.HasCode(err, fault.CodeExecutionUnreadable), "%v", err)
	require.Equal(t, fault.CodeExecutionUnreadable, r.decide(x, r.user("approver"), "approve").Code)
	require.Equal(t, "pending", r.status(*x.ApprovalID))
	require.Empty(t, r.decide(x, r.user("approver"), "reject").Code)
	require.Equal(t, run.StateRejected, r.read(x).State)
	require.Zero(t, r.provider.effects.Load())
}

func TestCallWhoseKeyCannotBeReadNowClaimsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	away := error(fault.New(fault.CodeServiceUnavailable, ""))
	r.keys.away.Store(&away)
	_, err := r.do("pay", "two", `{"n":1}`)
	require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%v", err)
	require.Zero(t, r.count(`SELECT count(*) FROM runs`))
	require.Zero(t, r.provider.effects.Load())
}

func TestHeldRunWhoseKeyIsGoneCanOnlyBeRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "two", `{"n":1}`)
	broken := errors.New("the key is gone")
	r.keys.away.Store(&broken)
	require.Equal(t, fault.CodeExecutionUnreadable, r.decide(x, r.user("approver"), "approve").Code)
	require.Empty(t, r.decide(x, r.user("approver"), "reject").Code)
	require.Equal(t, "rejected", r.text(`SELECT state FROM runs`))
	require.Zero(t, r.provider.effects.Load())
}

// The sweeper ends a run that it has not opened. Those who wait for the run are told what it
// says all the same.
func TestEndOfARunThatWasNotOpenedIsReadByThoseWhoWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	first, err := r.do("pay", "one", `{"n":1}`, noWait)
	require.NoError(t, err)
	r.engine.open.Store(r.workflow("one"), false)
	var out run.Outcome
	told := make(chan error, 1)
	go func() {
		var err error
		out, err = r.do("pay", "one", `{"n":2}`)
		told <- err
	}()
	require.Eventually(t, func() bool { return r.Awaited(first.Run.ID) }, time.Minute, time.Millisecond)
	require.NoError(t, r.Sweep(t.Context()))
	require.NoError(t, <-told)
	require.Equal(t, run.StateRefused, out.Run.State)
	require.Equal(t, []string{"/args/n"}, out.ArgsDiffer)
}
