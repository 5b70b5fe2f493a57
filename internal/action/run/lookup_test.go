package run_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/killswitch"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// looking is a policy about pay that looks the order up.
func looking(action governance.Action, status string) governance.Policy {
	p := rule(action, "pay")
	p.Lookups = []governance.Lookup{{Name: "order", Verb: "shop:read", Args: json.RawMessage(`{"id":{"field":"args.order"}}`)}}
	p.Conditions = []governance.Condition{{Field: "lookup.order.status", Operator: governance.OpEquals, Value: json.RawMessage(`"` + status + `"`)}}
	return p
}

func answered(result string) run.Answer {
	return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(result)}
}

// orders has the provider answer look-ups.
func (r *rig) orders(f func(ctx context.Context, args json.RawMessage) run.Answer) {
	r.provider.reads.Store(&f)
}

func (r *rig) ordersAre(status string) {
	r.orders(func(context.Context, json.RawMessage) run.Answer {
		return answered(`{"status":"` + status + `","customer":"secret-customer"}`)
	})
}

// asked requires how many look-ups and calls the provider has got.
func (r *rig) asked(lookups, calls int64) {
	r.t.Helper()
	require.Equal(r.t, lookups, r.provider.looked.Load(), "look-ups")
	require.Equal(r.t, calls, r.provider.effects.Load(), "calls")
}

func TestLookupDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	r.ordersAre("pending")
	out, err := r.do("pay", "a", `{"order":"o-1"}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	r.asked(1, 1)
	require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.looked_up' AND execution_id = 'a' AND verb = 'read' AND outcome = 'answered'
		AND input IS NULL AND details #>> '{for,0,lookup}' = 'order' AND details ->> 'call' = 'shop:pay'`))
	require.Zero(t, r.count(`SELECT count(*) FROM runs WHERE lookups IS NOT NULL`), "the answers are kept only until the end")

	r.ordersAre("shipped")
	out, err = r.do("pay", "b", `{"order":"o-1"}`)
	require.NoError(t, err)
	require.Equal(t, run.StateBlocked, out.Run.State)
	require.Contains(t, out.Run.Reason, `lookup.order.status equals "shipped"`)
	r.asked(2, 1)
	require.NotContains(t, r.text(`SELECT string_agg(a::text, '') || (SELECT string_agg(p::text, '') FROM approvals p) FROM audit_records a`), "secret-customer")

	// What another condition decides needs no look-up.
	p := looking(governance.ActionBlock, "shipped")
	p.Conditions = append(p.Conditions, governance.Condition{Field: "args.amount", Operator: governance.OpGreater, Value: json.RawMessage("100")})
	r.policies(p)
	out, err = r.do("pay", "c", `{"order":"o-1","amount":5}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	r.asked(2, 2)
}

// A look-up without an answer leaves the policy in doubt, and says why.
func TestLookupThatFailsBlocks(t *testing.T) {
	t.Parallel()
	stopped := func(r *rig) {
		s, who := r.switches()
		_, err := s.Set(t.Context(), who, killswitch.NewSwitch{Scope: "verb", Target: "shop:read", Reason: "x"})
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		prepare func(r *rig)
		answer  run.Answer
		args    string
		says    string
		outcome string
		looked  int64
	}{
		"refused":         {nil, run.Answer{Phase: attempt.Answered, Status: 404, Complete: true}, ``, "its provider refused it", "refused", 1},
		"failed":          {nil, run.Answer{Phase: attempt.Answered, Status: 500, Complete: true}, ``, "it failed", "failed", 1},
		"not sent":        {nil, run.Answer{Phase: attempt.NotSent, Problem: "no connection"}, ``, "it failed", "failed", 1},
		"not understood":  {nil, run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Problem: "x"}, ``, "it failed", "failed", 1},
		"timeout":         {nil, run.Answer{Phase: attempt.Sent, Timeout: true}, ``, "no answer in time", "timeout", 1},
		"it lacks it":     {nil, answered(`{}`), ``, "the answer lacks it", "answered", 1},
		"the call does":   {nil, answered(`{}`), `{}`, "the call lacks a value", "", 0},
		"became a write":  {func(r *rig) { r.imports(func(t *target) { t.op = verb.Write }) }, answered(`{}`), ``, "not a read of low or medium risk", "no_read", 0},
		"became risky":    {func(r *rig) { r.imports(func(t *target) { t.risk = verb.RiskHigh }) }, answered(`{}`), ``, "not a read of low or medium risk", "no_read", 0},
		"kill switch":     {stopped, answered(`{"status":"pending"}`), ``, "a kill switch covers its verb", "stopped", 0},
		"quarantined":     {func(r *rig) { r.imports(func(t *target) { t.quarantined = true }) }, answered(`{"status":"pending"}`), ``, "its verb is quarantined", "quarantined", 0},
		"does not fit":    {nil, answered(`{}`), `{"order":"bad"}`, "do not fit the schema", "args", 0},
		"another of them": {nil, answered(`{"status":7}`), ``, "not a string", "answered", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := looking(governance.ActionBlock, "shipped")
			if name == "does not fit" {
				p.Lookups[0].Args = json.RawMessage(`{"bad":true}`)
			}
			r.policies(p)
			r.orders(func(context.Context, json.RawMessage) run.Answer { return c.answer })
			if c.prepare != nil {
				c.prepare(r)
			}
			if c.args == "" {
				c.args = `{"order":"o-1"}`
			}
			out, err := r.do("pay", "a", c.args)
			require.NoError(t, err)
			require.Equal(t, run.StateBlocked, out.Run.State)
			require.Contains(t, out.Run.Reason, c.says)
			r.asked(c.looked, 0)
			if c.outcome != "" {
				require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.looked_up' AND outcome = '`+c.outcome+`'`))
			}
		})
	}
}

// imports changes the verb read as an import does.
func (r *rig) imports(change func(*target)) {
	f := func(t *target) {
		if t.name.Verb == "read" {
			change(t)
		}
	}
	r.targets.imported.Store(&f)
}

// A look-up has five seconds, and no step waits for it.
func TestLookupThatHangsIsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	goOn, left := make(chan struct{}), make(chan time.Duration, 1)
	r.orders(func(ctx context.Context, _ json.RawMessage) run.Answer {
		until, _ := ctx.Deadline()
		left <- time.Until(until)
		<-goOn
		return answered(`{"status":"pending"}`)
	})
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.Patience = time.Millisecond })
	r.engine.dead.Store(true)
	out, err := r.do("pay", "a", `{"order":"o-1"}`, noWait)
	require.NoError(t, err)
	step, err := r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.True(t, step.UnderWay)
	require.LessOrEqual(t, <-left, 5*time.Second)
	close(goOn)
	require.Eventually(t, func() bool { return r.engine.nudged.Load() > 0 }, 20*time.Second, 10*time.Millisecond)
}

// Answers are kept in the row: no attempt looks up twice, in whichever process.
func TestAnswersOfLookupsServeAllAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	r.ordersAre("pending")
	r.provider.replies(func(n int64) run.Answer {
		if n == 1 {
			return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: time.Millisecond}
		}
		return answered(`{}`)
	})
	r.engine.dead.Store(true)
	out, err := r.do("pay", "a", `{"order":"o-1"}`, noWait)
	require.NoError(t, err)
	step, err := r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	r.asked(0, 0)
	step, err = r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	r.asked(1, 1)
	require.NotContains(t, r.text(`SELECT lookups FROM runs`), "pending", "they are sealed")
	second := r.another()
	require.Eventually(t, func() bool {
		step, err = second.Send(t.Context(), ref(out.Run))
		return err == nil && step.Done
	}, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, run.StateExecuted, step.State)
	r.asked(1, 2)
}

// A process that dies while it looks up costs one more look-up, and never a second call.
func TestCrashInALookupSendsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	goOn := make(chan struct{})
	var again atomic.Bool
	r.orders(func(context.Context, json.RawMessage) run.Answer {
		if !again.Swap(true) {
			<-goOn
		}
		return answered(`{"status":"pending"}`)
	})
	r.engine.dead.Store(true)
	out, err := r.do("pay", "a", `{"order":"o-1"}`, noWait)
	require.NoError(t, err)
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.Patience = time.Millisecond })
	_, err = r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.provider.looked.Load() == 1 }, 20*time.Second, time.Millisecond)
	step, err := r.another().Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, step.State)
	r.asked(2, 1)
	close(goOn) // the first was only slow
	require.Eventually(t, func() bool {
		step, err := r.Send(t.Context(), ref(out.Run))
		return err == nil && step.Done
	}, 20*time.Second, 5*time.Millisecond)
	r.asked(2, 1)
}

// After a hold the call is judged by what is true at its dispatch.
func TestHeldCallIsLookedUpAgainAtDispatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then  string
		state run.State
		calls int64
	}{"the same": {"shipped", run.StateExecuted, 1}, "it has changed": {"lost", run.StateBlocked, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ask, lost := looking(governance.ActionRequireApproval, "shipped"), looking(governance.ActionBlock, "lost")
			r.policies(ask, lost)
			r.ordersAre("shipped")
			x := r.held("pay", "a", `{"order":"o-1"}`)
			r.asked(1, 0)
			step, err := r.Govern(t.Context(), ref(x))
			require.NoError(t, err)
			require.Equal(t, *x.ApprovalID, step.ApprovalID, "while it waits nothing is looked up again")
			r.asked(1, 0)
			r.ordersAre(c.then)
			require.Empty(t, r.decide(x, r.user("owner"), "approve").Code)
			require.Equal(t, c.state, r.wake(x).State)
			r.asked(2, c.calls)
		})
	}
}

// An edit that changes what is looked up is judged when it is sent.
func TestEditedCallIsLookedUpAtDispatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"), looking(governance.ActionBlock, "shipped"))
	r.orders(func(_ context.Context, args json.RawMessage) run.Answer {
		if string(args) == `{"id":"o-2"}` {
			return answered(`{"status":"shipped"}`)
		}
		return answered(`{"status":"pending"}`)
	})
	x := r.held("pay", "a", `{"order":"o-1"}`)
	r.asked(1, 0)
	by := r.user("owner")
	_, err := r.SealEdit(t.Context(), r.tenant, x.ID.String(), json.RawMessage(`{"order":"o-2"}`))
	require.NoError(t, err)
	require.Empty(t, r.decide(x, by, "approve", `{"order":"o-2"}`).Code)
	x = r.read(x)
	require.Empty(t, r.decide(x, r.user("owner"), "approve").Code)
	require.Equal(t, run.StateBlocked, r.wake(x).State)
	r.asked(2, 0)
}

func TestDryRunLooksUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	r.ordersAre("shipped")
	out, err := r.do("pay", "a", `{"order":"o-1"}`, func(q *run.Request) { q.DryRun = true })
	require.NoError(t, err)
	require.Equal(t, run.StateBlocked, out.Run.State)
	r.ordersAre("pending")
	out, err = r.do("pay", "b", `{"order":"o-1"}`, func(q *run.Request) { q.DryRun = true })
	require.NoError(t, err)
	require.Equal(t, run.StateIntercepted, out.Run.State)
	r.asked(2, 0)
}

// An evaluation makes no look-up, and answers on the strict side.
func TestEvaluationDoesNotLookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	r.ordersAre("pending")
	e, err := r.Evaluate(t.Context(), r.caller(), run.Question{Verb: "shop:pay", Args: json.RawMessage(`{"order":"o-1"}`)})
	require.NoError(t, err)
	require.Equal(t, governance.Block, e.Verdict.Decision)
	require.Equal(t, "lookup: not_run", e.Verdict.Matches[0].Conditions[0].FailClosed)
	r.asked(0, 0)
}

// A key that was revoked looks nothing up.
func TestRevokedKeyDoesNotLookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	r.ordersAre("pending")
	r.engine.dead.Store(true)
	out, err := r.do("pay", "a", `{"order":"o-1"}`, noWait)
	require.NoError(t, err)
	r.admin(`UPDATE api_keys SET revoked_at = now()`)
	step, err := r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, run.StateRefused, step.State)
	require.Equal(t, fault.CodeAPIKeyRevoked, r.read(out.Run).ErrorCode)
	r.asked(0, 0)
}

// A call that cannot run makes no reads at a provider.
func TestCallThatCannotRunIsNotLookedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(looking(governance.ActionBlock, "shipped"))
	r.ordersAre("pending")
	out, err := r.do("pay", "a", `{"order":"o-1","bad":true}`)
	require.NoError(t, err)
	require.Equal(t, run.StateRefused, out.Run.State)
	require.Equal(t, fault.CodeInvalidArgs, out.Run.ErrorCode)
	r.asked(0, 0)
}

// What was looked up before a wait for a kill switch does not count after it.
func TestLookupsDoNotOutlastAKillSwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out, err := r.do("pay", "a", `{"order":"o-1"}`)
	require.NoError(t, err)
	for maybeSent, kept := range map[bool]int{false: 0, true: 1} {
		r.admin(`UPDATE runs SET state = 'claimed', maybe_sent = $1, lookups = 'x'`, maybeSent)
		require.NoError(t, dbsqlc.New().ProlongRun(t.Context(), r.db.Tenant(out.Run.TenantID), dbsqlc.ProlongRunParams{
			TenantID: out.Run.TenantID, ID: out.Run.ID, Attempt: out.Run.Attempt,
		}))
		require.Equal(t, kept, r.count(`SELECT count(*) FROM runs WHERE lookups IS NOT NULL`), "maybe sent: %t", maybeSent)
	}
}
