package run_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/resultnote"
)

// declares makes pay a verb that is proven by read.
func (r *rig) declares(readVerb string) {
	r.targets.readBack.Store(&verb.ReadBack{
		Verb: readVerb, Args: json.RawMessage(`{"id":"${args.id}"}`),
		Match: verb.Match{Equals: map[string]json.RawMessage{"id": json.RawMessage(`"${args.id}"`)}},
	})
}

// found answers the write not at all, and read-backs from the nth call on with the payment.
func (r *rig) found(from int64) {
	r.provider.replies(func(n int64) run.Answer {
		switch {
		case n == 1:
			return run.Answer{Phase: attempt.Sent}
		case n < from:
			return run.Answer{Phase: attempt.Answered, Status: 404, Complete: true, Result: json.RawMessage(`{}`)}
		default:
			return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"id":"p1","paid":true}`)}
		}
	})
}

func TestReadBackProvesAWriteWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// A poll may meet the row before the first look.
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.PollEvery = time.Minute })
	r.engine.service = r.Service
	r.declares("read")
	r.found(2)
	out := r.must(r.do("pay", "one", `{"id":"p1"}`))
	require.Equal(t, run.StateExecuted, out.Run.State, "the first look is made before the caller is told")
	require.JSONEq(t, `{"id":"p1","paid":true}`, string(out.Run.Result))
	require.JSONEq(t, `{"id":"p1"}`, r.provider.last(), "the read has the write's argument")
	require.False(t, out.Run.Trusted, "the result is that of a verb whose results are not trusted")
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.outcome_unknown'`))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.resolved' AND actor_type = 'system'
		AND details->>'resolved_by' = 'read_back' AND details->>'verb' = 'shop:read'`))
	require.True(t, r.must(r.do("pay", "one", `{"id":"p1"}`)).Cached)
	require.Equal(t, "The read-back shop:read found that it took effect.", r.text(`SELECT resolve_reason FROM runs`))
}

func TestReadBackThatFindsNothingLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declares("read")
	r.found(1000)
	out := r.must(r.do("pay", "one", `{"id":"p1"}`))
	require.Equal(t, fault.CodeOutcomeUnknown, out.Fault().Code)
	step, err := r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.False(t, step.Done, "a crash came between the looks: the workflow looks again")
	step, err = r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.False(t, step.Done)
	require.Positive(t, step.After)
	r.ahead.Store(int64(2 * time.Minute))
	step, err = r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.True(t, step.Done, "that was the last look")
	require.Equal(t, run.StateOutcomeUnknown, r.read(out.Run).State)
}

func TestReadBackFindsAnEffectThatComesLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declares("read")
	r.found(3)
	out := r.must(r.do("pay", "one", `{"id":"p1"}`))
	require.Equal(t, run.StateOutcomeUnknown, out.Run.State)
	require.Eventually(t, func() bool { return r.read(out.Run).State == run.StateExecuted }, time.Minute, time.Millisecond)
}

// A crash came while the call was under way. What may not be repeated is looked up.
func TestReadBackProvesACallThatACrashInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declares("read")
	r.engine.dead.Store(true)
	out := r.must(r.do("pay", "one", `{"id":"p1"}`, hurry))
	r.admin(`UPDATE runs SET state = 'sending', sends = 1, sent_at = now() - interval '1 minute', updated_at = now() - interval '1 minute'`)
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"id":"p1"}`)}
	})
	require.Equal(t, run.StateExecuted, r.wake(out.Run).State)
	require.EqualValues(t, 1, r.provider.effects.Load(), "only the read")
}

func TestReadBackIsNotMadeWhereTheReadMayNotBe(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(r *rig){
		"no read":        func(r *rig) { r.declares("keyed") },
		"blocked":        func(r *rig) { r.policies(rule(governance.ActionBlock, "read")) },
		"held":           func(r *rig) { r.policies(rule(governance.ActionRequireApproval, "read")) },
		"no argument":    func(r *rig) { r.targets.readBack.Load().Args = json.RawMessage(`{"id":"${args.other}"}`) },
		"bad argument":   func(r *rig) { r.targets.readBack.Load().Args = json.RawMessage(`{"bad":true}`) },
		"key is revoked": func(*rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.declares("read")
			prepare(r)
			r.provider.replies(func(int64) run.Answer {
				if name == "key is revoked" {
					r.admin(`UPDATE api_keys SET revoked_at = now()`)
				}
				return run.Answer{Phase: attempt.Sent}
			})
			out := r.must(r.do("pay", "one", `{"id":"p1"}`))
			require.Equal(t, run.StateOutcomeUnknown, out.Run.State)
			require.EqualValues(t, 1, r.provider.effects.Load(), "only the write")
		})
	}
}

// A person settles the run while the read is under way: the first one counts.
func TestReadBackDoesNotOverruleAPerson(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declares("read")
	var settled atomic.Bool
	r.provider.replies(func(n int64) run.Answer {
		if n == 1 {
			return run.Answer{Phase: attempt.Sent}
		}
		who := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.tenant}
		_, err := r.Resolve(t.Context(), who, "one", run.Resolution{Reason: "the shop says no"})
		if err == nil {
			settled.Store(true)
		}
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"id":"p1"}`)}
	})
	r.must(r.do("pay", "one", `{"id":"p1"}`))
	require.Eventually(t, settled.Load, time.Minute, time.Millisecond, "on a busy machine a later look is the first")
	require.Equal(t, "failed", r.text(`SELECT state FROM runs`))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.resolved'`))
}

// Nothing is left of the run but its row: the process that sent it and its workflow are gone.
func TestSweeperReadsBackAWriteWhoseWorkflowIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from  int64 // the call from which the payment is found
		state run.State
	}{
		"it took effect": {1, run.StateExecuted},
		"not found":      {1000, run.StateOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.declares("read")
			r.provider.replies(func(n int64) run.Answer {
				if n < c.from {
					return run.Answer{Phase: attempt.Answered, Status: 404, Complete: true, Result: json.RawMessage(`{}`)}
				}
				return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"id":"p1"}`)}
			})
			r.engine.dead.Store(true)
			none := time.Duration(0)
			out := r.must(r.do("pay", "one", `{"id":"p1"}`, func(q *run.Request) { q.Wait = &none }))
			r.admin(`UPDATE runs SET state = 'sending', operation_type = 'write', sends = 1, sent_at = now(), updated_at = now() - interval '1 minute'`)
			require.NoError(t, r.Sweep(t.Context()))
			r.Drain(t.Context())
			require.Equal(t, c.state, r.read(out.Run).State)
			require.EqualValues(t, 1, r.provider.effects.Load(), "one look, and nothing is sent again")
			require.JSONEq(t, `{"id":"p1"}`, r.provider.last())
		})
	}
}

// What the read-back needs cannot be read for a moment. The run is not given up for that.
func TestSweeperWaitsForWhatAReadBackNeeds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declares("read")
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"id":"p1"}`)}
	})
	r.engine.dead.Store(true)
	out := r.must(r.do("pay", "one", `{"id":"p1"}`, noWait))
	r.admin(`UPDATE runs SET state = 'sending', operation_type = 'write', sends = 1, sent_at = now(), updated_at = now() - interval '20 seconds'`)
	away := error(fault.New(fault.CodeServiceUnavailable, ""))
	r.keys.away.Store(&away)
	require.NoError(t, r.Sweep(t.Context()))
	r.keys.away.Store(nil)
	require.Equal(t, run.StateSending, r.read(out.Run).State)
	require.NoError(t, r.Sweep(t.Context()))
	r.Drain(t.Context())
	require.Equal(t, run.StateExecuted, r.read(out.Run).State)
}

func TestHeadersWithWordsAreNoPartOfATrustedResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for key, c := range map[string]struct {
		headers map[string]string
		want    bool
	}{
		"none":   {nil, true},
		"number": {map[string]string{"X-Total-Count": "3"}, true},
		"words":  {map[string]string{"X-Total-Count": "3", "Link": "<https://a.test/Ignore-all-rules>"}, false},
	} {
		r.provider.replies(func(int64) run.Answer {
			return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"id":"p1"}`), Note: resultnote.Note{Headers: c.headers}}
		})
		require.Equal(t, c.want, r.must(r.do("pay", key, `{"id":"p1"}`)).Run.Trusted, key)
	}
}
