package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// A repeat with other arguments is told so in every state that it may find.
func TestRepeatWithOtherArgumentsIsToldInEveryState(t *testing.T) {
	t.Parallel()
	for state, prepare := range map[run.State]func(r *rig){
		run.StateExecuted:       func(r *rig) { r.must(r.do("pay", "one", `{"amount":1}`)) },
		run.StateFailed:         func(r *rig) { r.answers(400); r.must(r.do("pay", "one", `{"amount":1}`)) },
		run.StateOutcomeUnknown: func(r *rig) { r.loses(); r.must(r.do("pay", "one", `{"amount":1}`)) },
		run.StatePending: func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.held("pay", "one", `{"amount":1}`)
		},
		run.StateRejected: func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.decide(r.held("pay", "one", `{"amount":1}`), r.user("admin"), "reject")
		},
		run.StateCancelled: func(r *rig) {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.held("pay", "one", `{"amount":1}`)
			_, err := r.Cancel(r.t.Context(), r.caller(), "one")
			require.NoError(r.t, err)
		},
		run.StateClaimed: func(r *rig) {
			r.engine.dead.Store(true)
			r.must(r.do("pay", "one", `{"amount":1}`, hurry))
		},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			prepare(r)
			for _, args := range []string{`{"amount":1}`, `{"amount":4999,"x/y":1}`} {
				out, err := r.do("pay", "one", args, hurry)
				require.NoError(t, err)
				require.Equal(t, state, out.Run.State)
				require.True(t, out.Cached)
				differs := []string(nil)
				if strings.Contains(args, "4999") {
					differs = []string{"/args/amount", "/args/x~1y"}
				}
				require.Equal(t, differs, out.ArgsDiffer)
				f := out.Fault()
				if f == nil {
					require.Contains(t, []run.State{run.StateExecuted, run.StateClaimed}, state)
					continue
				}
				require.Equal(t, differs == nil, *f.ArgsMatch)
				require.Equal(t, differs, f.ArgsDiffer)
				require.Equal(t, "one", f.CachedFrom)
				require.Equal(t, state.Status(), f.Status)
				require.Equal(t, differs != nil, strings.Contains(f.Message, "/args/amount"))
				require.NotContains(t, f.Message, "4999")
			}
		})
	}
}

// hurry makes the call without waiting for its run.
func hurry(q *run.Request) { q.Wait = new(time.Duration) }

func (r *rig) must(out run.Outcome, err error) run.Outcome {
	r.t.Helper()
	require.NoError(r.t, err)
	return out
}

// answers makes the provider answer with a status and a body.
func (r *rig) answers(status int) {
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: status, Complete: true, Result: []byte(`{"why":"no"}`)}
	})
}

// loses makes the provider lose its answers.
func (r *rig) loses() {
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
}

func TestPathsOfDifferentArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := strings.Repeat("a", 10_000)
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`"%s%d":1`, strings.Repeat("k", i%3*150), i)
	}
	r.must(r.do("pay", "one", `{}`))
	out := r.must(r.do("pay", "one", `{"deep":{"`+long+`":{"x":1}},`+strings.Join(many, ",")+`}`))
	require.NotEmpty(t, out.ArgsDiffer)
	require.LessOrEqual(t, len(out.ArgsDiffer), 10)
	require.Less(t, len(strings.Join(out.ArgsDiffer, "")), 2001)
	deep := func(end string) string {
		return strings.Repeat(`{"a_name_of_some_length":`, 30) + end + strings.Repeat("}", 30)
	}
	require.False(t, r.must(r.do("pay", "two", deep("1"))).Cached)
	out = r.must(r.do("pay", "two", deep("2")))
	require.Equal(t, []string{"/args" + strings.Repeat("/a_name_of_some_length", 8)}, out.ArgsDiffer, "a place above the deep one")
}

func TestStoredFailureNamesWhatTheProviderSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.answers(409)
	said := `{"status":409,"code":"","message":"","body":{"why":"no"}}`
	first := r.must(r.do("pay", "one", `{}`)).Fault()
	require.JSONEq(t, said, string(first.ProviderError))
	require.Empty(t, first.CachedFrom)
	require.Nil(t, first.ArgsMatch)
	again := r.must(r.do("pay", "one", `{}`)).Fault()
	require.JSONEq(t, said, string(again.ProviderError))
	require.Equal(t, "one", again.CachedFrom)
	require.True(t, *again.ArgsMatch)
}

func TestRejectedDryRunAnswersItsRepeatWithTheApprovalsStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dry := func(q *run.Request) { q.DryRun = true }
	out := r.must(r.do("pay", "one", `{}`, dry))
	require.Equal(t, "pending", out.ApprovalStatus)
	require.Equal(t, "pending", r.must(r.do("pay", "one", `{}`, dry)).ApprovalStatus)
	r.decide(out.Run, r.user("admin"), "reject")
	out = r.must(r.do("pay", "one", `{}`, dry))
	require.Equal(t, run.StateIntercepted, out.Run.State)
	require.Equal(t, "rejected", out.ApprovalStatus)
	require.Nil(t, out.Fault())
	require.Equal(t, 1, r.count(`SELECT count(*) FROM approvals`))
}

func (r *rig) names() string {
	return r.text(`SELECT coalesce(string_agg(key, ' ' ORDER BY key), '') FROM run_keys WHERE key NOT LIKE 'exec%'`)
}

func TestRefusedCallBindsNoName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := func(k string) func(*run.Request) { return func(q *run.Request) { q.IdempotencyKey = k } }
	header := func(q *run.Request) { q.KeyByHeader = true }
	r.must(r.do("pay", "one", `{"amount":1}`))
	for name, c := range map[string]struct {
		verb, id, args string
		more           []func(*run.Request)
		code           fault.Code
	}{
		"another verb":                  {"read", "new", `{"amount":1}`, []func(*run.Request){key("one")}, fault.CodeIdempotencyKeyReused},
		"another verb, by the other":    {"read", "one", `{"amount":1}`, []func(*run.Request){key("new")}, fault.CodeIdempotencyKeyReused},
		"a dry run":                     {"pay", "new", `{"amount":1}`, []func(*run.Request){key("one"), func(q *run.Request) { q.DryRun = true }}, fault.CodeIdempotencyKeyReused},
		"other arguments by header":     {"pay", "new", `{"amount":2}`, []func(*run.Request){key("one"), header}, fault.CodeIdempotencyKeyReused},
		"a header that is the new name": {"pay", "one", `{"amount":2}`, []func(*run.Request){key("new"), header}, fault.CodeIdempotencyKeyReused},
	} {
		_, err := r.do(c.verb, c.id, c.args, c.more...)
		require.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
		require.Equal(t, "one", fault.As(err).ExecutionID, "%s: the refusal names the run", name)
		require.Equal(t, "one", r.names(), name)
	}
	require.EqualValues(t, 1, r.provider.effects.Load())

	r.must(r.do("pay", "free", `{"bad":true}`))
	r.admin(`DELETE FROM verbs WHERE name = 'pay'`)
	_, err := r.do("pay", "free", `{}`, key("late"))
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound), "%v", err)
	require.Equal(t, "free one", r.names(), "a verb that is gone")
}

// One caller takes a name between another caller's look at the fence and its insert.
func TestRefusedCallThatLosesARaceBindsNoName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const rounds = 40
	for i := range rounds {
		x, y := fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = r.do("pay", x, `{}`) })
		var refused atomic.Bool
		wg.Go(func() {
			_, err := r.do("keyed", y, `{}`, func(q *run.Request) { q.IdempotencyKey = x })
			refused.Store(err != nil)
		})
		wg.Wait()
		if refused.Load() {
			require.False(t, r.must(r.do("keyed", y, `{}`)).Cached, "the name of a refused call is free")
		}
	}
	require.Zero(t, r.count(`SELECT count(*) FROM run_keys k WHERE NOT EXISTS (SELECT FROM runs r WHERE r.id = k.run_id)`))
}

// The race itself, step by step: the loser of one of two keys waits for the winner's commit.
func TestClaimThatLosesOneOfTwoKeysFindsTheWinner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn, err := pgx.Connect(t.Context(), r.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	r.must(r.do("pay", "other", `{}`))
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO run_keys (tenant_id, key, run_id) SELECT tenant_id, 'x', id FROM runs`)
	require.NoError(t, err)
	lost := make(chan error, 1)
	go func() {
		_, err := r.do("keyed", "a", `{}`, func(q *run.Request) { q.IdempotencyKey = "x" })
		lost <- err
	}()
	require.Eventually(t, func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) > 0
	}, time.Minute, time.Millisecond, "the second caller waits for the first")
	require.NoError(t, tx.Commit(t.Context()))
	require.True(t, fault.HasCode(<-lost, fault.CodeIdempotencyKeyReused))
	require.Equal(t, "other x", r.names())
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// An engine that cannot be reached.
type away struct{ *engine }

func (away) StartRun(context.Context, flow.ActionRunInput, string, flow.Listing) error {
	return errors.New("connection refused")
}

func TestCallWithoutAnIDIsWithdrawnWhereTheEngineIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.process(away{r.engine})
	req := run.Request{Verb: "shop:pay", Args: []byte(`{}`), Metadata: []byte(`{}`)}
	_, err := s.Do(t.Context(), r.caller(), req)
	f := fault.As(err)
	require.NotNil(t, f)
	require.Equal(t, fault.CodeServiceUnavailable, f.Code)
	require.True(t, f.Retryable)
	require.Contains(t, f.Message, "withdrawn")
	withdrawn := r.text(`SELECT execution_id FROM runs WHERE state = 'cancelled'`)
	require.Equal(t, withdrawn, f.ExecutionID)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.cancelled' AND actor_type = 'system'`))

	req.ExecutionID = "mine"
	_, err = s.Do(t.Context(), r.caller(), req)
	require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable))
	require.Contains(t, fault.As(err).Message, "stands")
	require.Equal(t, "claimed", r.text(`SELECT state FROM runs WHERE execution_id = 'mine'`))

	// The engine is back.
	require.Eventually(t, func() bool {
		require.NoError(t, r.Sweep(t.Context()))
		return r.text(`SELECT state FROM runs WHERE execution_id = 'mine'`) == "executed"
	}, time.Minute, 5*time.Millisecond)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// An engine whose answer to a start is lost: the workflow runs.
type lossy struct {
	*engine

	released chan struct{}
}

func (e lossy) StartRun(ctx context.Context, in flow.ActionRunInput, id string, listing flow.Listing) error {
	_ = e.engine.StartRun(ctx, in, id, listing)
	<-e.released
	return errors.New("connection reset")
}

func TestCallWhoseStartWasAnsweredTooLateGetsItsResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := lossy{r.engine, make(chan struct{})}
	s, _ := r.process(e)
	r.provider.replies(func(int64) run.Answer {
		close(e.released) // while the call is at the provider
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{}`)}
	})
	out, err := s.Do(t.Context(), r.caller(), run.Request{Verb: "shop:pay", Args: []byte(`{}`), Metadata: []byte(`{}`)})
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}
