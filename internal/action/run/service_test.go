package run_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestRepeatIsAnsweredFromTheFence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, err := r.do("pay", "e1", `{"amount":100}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, first.Run.State)
	require.False(t, first.Cached)
	require.Equal(t, "e1", first.Run.ExecutionID)

	second, err := r.do("pay", "e1", `{"amount": 1e2}`)
	require.NoError(t, err)
	require.True(t, second.Cached)
	require.Empty(t, second.ArgsDiffer, "100 and 1e2 are one number")
	require.JSONEq(t, string(first.Run.Result), string(second.Run.Result))
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestRacingCallersHaveOneEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const ids, callers = 20, 20
	var executed, cached atomic.Int64
	var wg sync.WaitGroup
	for i := range ids {
		for range callers {
			wg.Go(func() {
				out, err := r.do("pay", fmt.Sprintf("race-%d", i), `{}`)
				if err != nil || out.Run.State != run.StateExecuted {
					t.Errorf("race-%d: %v %v", i, out.Run.State, err)
				}
				if out.Cached {
					cached.Add(1)
				} else {
					executed.Add(1)
				}
			})
		}
	}
	wg.Wait()
	require.EqualValues(t, ids, r.provider.effects.Load())
	require.EqualValues(t, ids, executed.Load())
	require.EqualValues(t, ids*(callers-1), cached.Load())
}

func TestTwoKeysNameOneRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	with := func(key string) func(*run.Request) { return func(q *run.Request) { q.IdempotencyKey = key } }
	_, err := r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	out, err := r.do("pay", "e1", `{}`, with("k1")) // binds k1
	require.NoError(t, err)
	require.True(t, out.Cached)
	out, err = r.do("pay", "", `{}`, with("k1"))
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.Equal(t, "e1", out.Run.ExecutionID)

	_, err = r.do("pay", "e2", `{}`)
	require.NoError(t, err)
	_, err = r.do("pay", "e2", `{}`, with("k1"))
	require.True(t, fault.HasCode(err, fault.CodeIdempotencyConflict), "%v", err)
	require.EqualValues(t, 2, r.provider.effects.Load())
}

func TestRacingCallersWithCrossedKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range 30 {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		for _, q := range []struct{ exec, key string }{{a, b}, {b, a}, {a, ""}, {"", b}} {
			wg.Go(func() {
				_, err := r.do("pay", q.exec, `{}`, func(x *run.Request) { x.IdempotencyKey = q.key })
				if err != nil && !fault.HasCode(err, fault.CodeIdempotencyConflict) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	runs := r.count(`SELECT count(*) FROM runs`)
	require.EqualValues(t, runs, r.provider.effects.Load(), "every run has one effect")
	require.Zero(t, r.count(`SELECT count(*) FROM run_keys k WHERE NOT EXISTS (SELECT FROM runs r WHERE r.id = k.run_id)`), "a key names a run that does not exist")
}

func TestIDOfAnotherCallIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "e1", `{"amount":1}`)
	require.NoError(t, err)

	_, err = r.do("read", "e1", `{"amount":1}`)
	require.True(t, fault.HasCode(err, fault.CodeIdempotencyKeyReused), "another verb: %v", err)
	_, err = r.do("pay", "e1", `{"amount":1}`, func(q *run.Request) { q.DryRun = true })
	require.True(t, fault.HasCode(err, fault.CodeIdempotencyKeyReused), "a dry run: %v", err)
	out, err := r.do("pay", "e1", `{"amount":2}`)
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.Equal(t, []string{"/args/amount"}, out.ArgsDiffer)
	_, err = r.do("pay", "", `{"amount":2}`, func(q *run.Request) { q.IdempotencyKey, q.KeyByHeader = "e1", true })
	require.True(t, fault.HasCode(err, fault.CodeIdempotencyKeyReused), "by header with other arguments: %v", err)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestIDOfARefusedCallCanRunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out, err := r.do("pay", "e1", `{"bad":true}`)
	require.NoError(t, err)
	require.Equal(t, fault.CodeInvalidArgs, out.Run.Fault().Code)
	require.Equal(t, "failed", out.Run.State.Status())
	out, err = r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.False(t, out.Cached)
	require.EqualValues(t, 2, out.Run.Attempt)

	blocked, err := r.do("refund", "e2", `{}`)
	require.NoError(t, err)
	require.Equal(t, fault.CodeGovernanceBlocked, blocked.Run.Fault().Code)
	require.NotEmpty(t, blocked.Run.Fault().ApprovalID)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals WHERE status = 'blocked'`))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.blocked'`))
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestUnknownVerbClaimsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("nothing", "e1", `{}`)
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound), "%v", err)
	require.Zero(t, r.count(`SELECT count(*) FROM run_keys`))
}

func TestWriteWithoutAnswerIsUnknownAndNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	out, err := r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	require.Equal(t, fault.CodeOutcomeUnknown, out.Run.Fault().Code)
	out, err = r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.EqualValues(t, 1, r.provider.effects.Load())

	user := uuid.New()
	who := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: user}
	settled, err := r.Resolve(t.Context(), who, "e1", run.Resolution{Executed: true, Result: json.RawMessage(`{"id":"ch_1"}`), Reason: "seen at the provider"})
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, settled.State)
	_, err = r.Resolve(t.Context(), who, "e1", run.Resolution{Reason: "again"})
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	out, err = r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"ch_1"}`, string(out.Run.Result))
}

func TestCallThatMayBeRepeatedIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(n int64) run.Answer {
		if n < 3 {
			return run.Answer{Phase: attempt.Sent}
		}
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	out, err := r.do("keyed", "e1", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.EqualValues(t, 3, out.Run.Sends)
	keys := 0
	r.provider.keys.Range(func(any, any) bool { keys++; return true })
	require.Equal(t, 1, keys, "all attempts carry one idempotency key")
}

// A crash between claim and start leaves a row without a workflow.
func TestClaimWithoutAWorkflowIsRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	zero := time.Duration(0)
	out, err := r.do("pay", "e1", `{}`, func(q *run.Request) { q.Wait = &zero })
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, out.Run.State)
	r.engine.dead.Store(false)
	require.NoError(t, r.Sweep(t.Context()))
	out, err = r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// The workflow has ended, and the row has not.
func TestRowWhoseWorkflowEndedIsRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	zero := time.Duration(0)
	for _, id := range []string{"claimed", "sending"} {
		_, err := r.do("pay", id, `{}`, func(q *run.Request) { q.Wait = &zero })
		require.NoError(t, err)
		r.engine.open.Store(r.workflow(id), false)
	}
	r.admin(`UPDATE runs SET state = 'sending', updated_at = now() - interval '1 minute' WHERE execution_id = 'sending'`)
	require.NoError(t, r.Sweep(t.Context()))
	require.NoError(t, r.Sweep(t.Context()))
	out, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "sending")
	require.NoError(t, err)
	require.Equal(t, run.StateOutcomeUnknown, out.State)
	out, err = r.Get(t.Context(), actor.SystemOf(r.tenant), "claimed")
	require.NoError(t, err)
	require.Equal(t, run.StateRefused, out.State)
	require.Zero(t, r.provider.effects.Load())
}

// A worker that crashed after sending had been committed repeats the step.
func TestCrashedSendIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		state   run.State
		effects int64
	}{
		"pay":   {run.StateOutcomeUnknown, 0},
		"keyed": {run.StateExecuted, 1},
		"read":  {run.StateExecuted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.engine.dead.Store(true)
			zero := time.Duration(0)
			out, err := r.do(name, "e1", `{}`, func(q *run.Request) { q.Wait = &zero })
			require.NoError(t, err)
			r.admin(`UPDATE runs SET state = 'sending', sends = 1, sent_at = now(), updated_at = now() - interval '1 minute'`)
			r.engine.walk(t.Context(), flow.RunRef{TenantID: r.tenant, RunID: out.Run.ID, Attempt: 1}, r.workflow("e1"))
			got, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "e1")
			require.NoError(t, err)
			require.Equal(t, want.state, got.State)
			require.Equal(t, want.effects, r.provider.effects.Load())
		})
	}
}

func TestRevokedKeySendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	zero := time.Duration(0)
	out, err := r.do("pay", "e1", `{}`, func(q *run.Request) { q.Wait = &zero })
	require.NoError(t, err)
	r.admin(`UPDATE api_keys SET revoked_at = now()`)
	r.engine.walk(t.Context(), flow.RunRef{TenantID: r.tenant, RunID: out.Run.ID, Attempt: 1}, r.workflow("e1"))
	got, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "e1")
	require.NoError(t, err)
	require.Equal(t, fault.CodeAPIKeyRevoked, got.ErrorCode)
	require.Zero(t, r.provider.effects.Load())
}

func TestCancelledRunSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	zero := time.Duration(0)
	out, err := r.do("pay", "e1", `{}`, func(q *run.Request) { q.Wait = &zero })
	require.NoError(t, err)
	who := actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: r.key}
	_, err = r.Cancel(t.Context(), who, "e1")
	require.NoError(t, err)
	_, err = r.Cancel(t.Context(), who, "e1")
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	r.engine.walk(t.Context(), flow.RunRef{TenantID: r.tenant, RunID: out.Run.ID, Attempt: 1}, r.workflow("e1"))
	require.Zero(t, r.provider.effects.Load())
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.cancelled'`))
}

// A repeatable write whose attempt may have had its effect is neither cancelled nor
// refused as if nothing had been sent.
func TestRunThatMayHaveBeenSentIsNotCancelledOrRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	answered := make(chan run.Outcome, 1)
	go func() {
		out, _ := r.do("keyed", "e1", `{}`)
		answered <- out
	}()
	who := actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: r.key}
	var claimed run.Run
	require.Eventually(t, func() bool {
		var err error
		claimed, err = r.Get(t.Context(), who, "e1")
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	ref := flow.RunRef{TenantID: r.tenant, RunID: claimed.ID, Attempt: 1}
	step, err := r.Send(t.Context(), ref)
	require.NoError(t, err)
	require.Positive(t, step.After)

	_, err = r.Cancel(t.Context(), who, "e1")
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	r.admin(`UPDATE api_keys SET revoked_at = now()`)
	r.ahead.Add(int64(step.After))
	_, err = r.Send(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, run.StateOutcomeUnknown, (<-answered).Run.State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestDryRunOfAWriteIsIntercepted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dry := func(q *run.Request) { q.DryRun = true }
	out, err := r.do("pay", "e1", `{"a":1}`, dry)
	require.NoError(t, err)
	require.Equal(t, run.StateIntercepted, out.Run.State)
	require.JSONEq(t, `{"a":1}`, string(out.Run.Result))
	require.NotNil(t, out.Run.ApprovalID)
	require.Zero(t, r.provider.effects.Load())
	out, err = r.do("pay", "e1", `{"a":1}`, dry)
	require.NoError(t, err)
	require.True(t, out.Cached)
	out, err = r.do("read", "e2", `{}`, dry)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State, "reads run in a dry run")
}

func TestAnotherTenantAndAnotherKeySeeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	other := uuid.New()
	for name, who := range map[string]actor.Actor{
		"tenant": actor.SystemOf(other), "key": {Kind: actor.Key, TenantID: r.tenant, ID: other},
	} {
		_, err := r.Get(t.Context(), who, "e1")
		require.True(t, fault.HasCode(err, fault.CodeExecutionNotFound), "%s: %v", name, err)
		list, _, err := r.List(t.Context(), who, run.Filter{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list)
	}
}

func TestAuditRecordCannotBeChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "e1", `{}`)
	require.NoError(t, err)
	require.Equal(t, 2, r.count(`SELECT count(*) FROM audit_records`))
	conn, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{"UPDATE audit_records SET action = 'x'", "DELETE FROM audit_records", "TRUNCATE audit_records", "UPDATE audit_records SET action = 'x' WHERE false"} {
		_, err := conn.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "insert-only", sql)
	}
}
