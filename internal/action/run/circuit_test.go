package run_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// newCircuitRig is a rig whose calls read the circuit of the shop with their verb.
func newCircuitRig(t *testing.T) (*rig, circuitRow) {
	t.Helper()
	r := newRig(t)
	pool := r.db.Tenant(r.tenant)
	over := func() circuit.Gate {
		text, err := dbsqlc.New().CircuitOver(context.Background(), pool, dbsqlc.CircuitOverParams{TenantID: r.tenant, Provider: "shop"})
		if err != nil {
			t.Error(err)
		}
		g, err := circuit.ReadGate(text)
		if err != nil {
			t.Error(err)
		}
		return g
	}
	r.targets.over.Store(&over)
	return r, circuitRow{r, dbsqlc.New(), "shop"}
}

// open lets ten calls fail.
func (c circuitRow) open() {
	c.t.Helper()
	c.answers(500)
	for i := range circuit.TheRule().Failures {
		require.Equal(c.t, fault.CodeProviderError, c.must(c.do("pay", fmt.Sprintf("failing-%d", i), `{}`)).Run.ErrorCode)
	}
	require.Equal(c.t, circuit.Open, c.gate().State)
	c.answers(200)
}

// pauseIsOver lets the next call pass as a probe.
func (c circuitRow) pauseIsOver() {
	c.t.Helper()
	c.admin(`UPDATE circuits SET probe_at = now()`)
}

func (c circuitRow) records() string {
	c.t.Helper()
	return c.text(`SELECT coalesce(string_agg(action || ' ' || (details ->> 'failures'), ', ' ORDER BY at), '') FROM audit_records WHERE action LIKE 'circuit.%'`)
}

func TestOpenCircuitRefusesCallsOfAllProcessesUntilAProbeSucceeds(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	sent := r.provider.effects.Load()
	for _, verb := range []string{"pay", "read", "keyed"} {
		f := r.must(r.do(verb, "new-"+verb, `{}`)).Run.Fault()
		require.Equal(t, fault.CodeCircuitOpen, f.Code)
		require.True(t, f.Retryable)
		require.InDelta(t, 10, f.RetryAfter.Seconds(), 10)
		require.Positive(t, f.RetryAfter)
		require.Equal(t, "failed", f.Status)
	}
	r.Service = r.another()
	r.engine.service = r.Service
	require.Equal(t, fault.CodeCircuitOpen, r.must(r.do("pay", "elsewhere", `{}`)).Run.ErrorCode)
	require.Equal(t, sent, r.provider.effects.Load())
	c.pauseIsOver()
	require.Equal(t, run.StateExecuted, r.must(r.do("pay", "new-pay", `{}`)).Run.State, "the id is free, and the call is the probe")
	require.Equal(t, circuit.Gate{}, c.gate())
	require.Equal(t, run.StateExecuted, r.must(r.do("pay", "elsewhere", `{}`)).Run.State)
	require.Equal(t, "circuit.opened 10, circuit.closed 0", c.records())
}

func TestFailingProbeOpensTheCircuitForTwiceAsLong(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	c.pauseIsOver()
	r.answers(503)
	require.Equal(t, fault.CodeProviderError, r.must(r.do("pay", "probe", `{}`)).Run.ErrorCode)
	require.InDelta(t, 20, c.gate().Wait.Seconds(), 15)
	require.Greater(t, c.gate().Wait, 10*time.Second)
	require.Equal(t, fault.CodeCircuitOpen, r.must(r.do("pay", "next", `{}`)).Run.ErrorCode)
	require.Equal(t, "circuit.opened 10", c.records())
	require.Equal(t, "http_503 http_500 http_500 http_500 http_500", r.text(`SELECT array_to_string(error_kinds, ' ') FROM circuits`))
}

// The probe is under way while many others come.
func TestOneProbePassesWhoeverElseComes(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	sent := r.provider.effects.Load()
	c.pauseIsOver()
	const others = 16
	var refused sync.WaitGroup
	refused.Add(others)
	r.provider.replies(func(int64) run.Answer {
		refused.Wait()
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{}`)}
	})
	ends := make(chan fault.Code, others+1)
	for i := range others + 1 {
		go func() {
			out, err := r.do("pay", fmt.Sprintf("at-once-%d", i), `{}`)
			if err != nil {
				t.Error(err)
			}
			if ends <- out.Run.ErrorCode; out.Run.ErrorCode == fault.CodeCircuitOpen {
				refused.Done()
			}
		}()
	}
	passed := 0
	for range others + 1 {
		if code := <-ends; code == "" {
			passed++
		} else {
			require.Equal(t, fault.CodeCircuitOpen, code)
		}
	}
	require.Equal(t, 1, passed)
	require.Equal(t, sent+1, r.provider.effects.Load())
	require.Equal(t, circuit.Gate{}, c.gate())
}

func TestHealthyProviderHasNoCircuit(t *testing.T) {
	t.Parallel()
	r, _ := newCircuitRig(t)
	for _, answer := range []run.Answer{
		{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{}`)},
		{Phase: attempt.Answered, Status: 404, Complete: true},
		{Phase: attempt.Sent, Timeout: true}, // of a write
		{Phase: attempt.NotSent, Cause: attempt.Ours, Problem: "its address is not public"},
	} {
		r.provider.replies(func(int64) run.Answer { return answer })
		r.must(r.do("pay", fmt.Sprint(answer.Phase, answer.Status), `{}`, func(q *run.Request) { q.Wait = new(100 * time.Millisecond) }))
	}
	require.Zero(t, r.count(`SELECT count(*) FROM circuits`))
	r.answers(500)
	r.must(r.do("pay", "fails", `{}`))
	require.Equal(t, 1, r.count(`SELECT failures FROM circuits`))
	r.answers(200)
	r.must(r.do("pay", "succeeds", `{}`))
	before := r.text(`SELECT xmin::text FROM circuits`)
	require.Zero(t, r.count(`SELECT failures FROM circuits`))
	r.must(r.do("pay", "succeeds too", `{}`))
	require.Equal(t, before, r.text(`SELECT xmin::text FROM circuits`), "a second success is no news")
}

// The successes of this process are told with its next failure.
func TestFailuresOfAHalfOpenTheCircuit(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	r.provider.replies(func(n int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: map[bool]int{true: 200, false: 500}[n%2 == 1], Complete: true, Result: []byte(`{}`)}
	})
	for i := range circuit.TheRule().Calls {
		require.True(t, c.gate().IsClosed(), i)
		r.must(r.do("pay", strconv.Itoa(i), `{}`))
	}
	require.Equal(t, circuit.Open, c.gate().State)
}

func TestCallThatWasJudgedBeforeTheCircuitOpenedIsNotSent(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	c.admin(`UPDATE circuits SET state = 'closed', probe_at = NULL, failures = 0`)
	r.engine.dead.Store(true)
	none := time.Duration(0)
	x := r.must(r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &none })).Run
	sent := r.provider.effects.Load()
	_, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	c.admin(`UPDATE circuits SET state = 'open', probe_at = now() + interval '40 s'`)
	step, err := r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	require.InDelta(t, 40, step.After.Seconds(), 20, "nobody waits for the call, so it waits for the circuit")
	require.Equal(t, sent, r.provider.effects.Load())
	c.pauseIsOver()
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
	require.Equal(t, circuit.Gate{}, c.gate())
}

// Which calls wait for an open circuit, and which are refused.
func TestCallWaitsForTheCircuitWhereNoCallerWaitsForIt(t *testing.T) {
	t.Parallel()
	none, long, soon := time.Duration(0), time.Minute, 20*time.Second
	asked := func(wait, expires *time.Duration) func(*rig) run.Run {
		return func(r *rig) run.Run {
			return r.must(r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait, q.ExpiresIn = wait, expires })).Run
		}
	}
	for name, c := range map[string]struct {
		claim func(*rig) run.Run
		pause string
		waits bool
	}{
		"a caller waits":                        {func(r *rig) run.Run { return r.claimOnly(&long, nil) }, "5 s", false},
		"no caller waits":                       {asked(&none, nil), "30 s", true},
		"no caller waits, and its time is over": {asked(&none, &soon), "30 s", false},
		"a step of a Map":                       {func(r *rig) run.Run { return r.step("pay", 0, 1).Run }, "2 minutes", true},
		"people have approved it": {func(r *rig) run.Run {
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			r.engine.dead.Store(false)
			x := r.held("pay", "one", `{}`)
			require.True(r.t, r.decide(x, r.user("approver"), "approve").Closed)
			return x
		}, "2 minutes", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, row := newCircuitRig(t)
			row.open()
			r.engine.dead.Store(true)
			row.admin(`UPDATE circuits SET probe_at = now() + $1::text::interval`, c.pause)
			sent := r.provider.effects.Load()
			x := c.claim(r)
			step, err := r.Govern(t.Context(), ref(x))
			require.NoError(t, err)
			if c.waits {
				require.Equal(t, run.StateClaimed, step.State)
				require.False(t, step.Done)
				require.Positive(t, step.After)
				require.LessOrEqual(t, step.After, time.Minute)
				row.pauseIsOver()
				step, err = r.Send(t.Context(), ref(x))
				require.NoError(t, err)
				require.Equal(t, flow.Step{State: run.StateExecuted, Done: true}, step)
				return
			}
			require.Equal(t, flow.Step{State: run.StateRefused, Done: true}, step)
			require.Equal(t, fault.CodeCircuitOpen, r.read(x).ErrorCode)
			require.Equal(t, sent, r.provider.effects.Load())
		})
	}
}

// claimOnly claims a call for a caller who waits so long, and starts nothing.
func (r *rig) claimOnly(wait, expires *time.Duration) run.Run {
	r.t.Helper()
	c, err := r.Claim(r.t.Context(), r.caller(), run.Request{
		Verb: "shop:pay", Args: []byte(`{}`), Metadata: []byte(`{}`), ExecutionID: "claimed", Wait: wait, ExpiresIn: expires,
	})
	require.NoError(r.t, err)
	return c.Run
}

// A read that failed once is refused once its caller would wait longer for the circuit than they do.
func TestRetryWaitsForTheCircuitWhileItsCallerWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait time.Duration
		want run.State
	}{"a long wait": {time.Minute, run.StateClaimed}, "a short wait": {2 * time.Second, run.StateRefused}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, row := newCircuitRig(t)
			r.engine.dead.Store(true)
			r.answers(503)
			claimed, err := r.Claim(t.Context(), r.caller(), run.Request{
				Verb: "shop:read", Args: []byte(`{}`), Metadata: []byte(`{}`), ExecutionID: "one", Wait: &c.wait,
			})
			require.NoError(t, err)
			step, err := r.Send(t.Context(), claimed.Ref())
			require.NoError(t, err)
			require.Equal(t, run.StateClaimed, step.State)
			row.admin(`UPDATE circuits SET state = 'open', failures = 10, probe_at = now() + interval '20 s'`)
			step, err = r.Send(t.Context(), claimed.Ref())
			require.NoError(t, err)
			require.Equal(t, c.want, step.State)
			require.EqualValues(t, 1, r.provider.effects.Load())
		})
	}
}

func TestCallThatMayHaveBeenSentWaitsForTheCircuit(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"closed in time": true, "not closed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, row := newCircuitRig(t)
			r.engine.dead.Store(true)
			r.provider.replies(func(n int64) run.Answer {
				return run.Answer{Phase: attempt.Answered, Status: map[bool]int{true: 504, false: 200}[n == 1], Complete: true, Result: []byte(`{}`)}
			})
			x := r.claimKeyed()
			step, err := r.Send(t.Context(), ref(x))
			require.NoError(t, err)
			require.Equal(t, run.StateClaimed, step.State)
			row.admin(`UPDATE circuits SET state = 'open', failures = 10, probe_at = now() + interval '20 s'`)
			step, err = r.Send(t.Context(), ref(x))
			require.NoError(t, err)
			require.Equal(t, run.StateClaimed, step.State)
			require.Positive(t, step.After)
			want := run.StateExecuted
			if closes {
				row.pauseIsOver()
				r.ahead.Add(int64(time.Second)) // the pause after the first attempt
			} else {
				want = run.StateOutcomeUnknown
				r.ahead.Add(int64(time.Hour))
			}
			step, err = r.Send(t.Context(), ref(x))
			require.NoError(t, err)
			require.Equal(t, flow.Step{State: want, Done: true}, step)
		})
	}
}

func (r *rig) claimKeyed() run.Run {
	r.t.Helper()
	none := time.Duration(0)
	return r.must(r.do("keyed", "one", `{}`, func(q *run.Request) { q.Wait = &none })).Run
}

func TestRefusedCallTakesNoUseOfAGrant(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	r.grant("refund", r.user("approver"), 1)
	require.Equal(t, fault.CodeCircuitOpen, r.must(r.do("refund", "one", `{}`)).Run.ErrorCode)
	require.Zero(t, r.count(`SELECT uses FROM grants`))
	c.pauseIsOver()
	require.Equal(t, run.StateExecuted, r.must(r.do("refund", "one", `{}`)).Run.State)
	require.Equal(t, 1, r.count(`SELECT uses FROM grants`))
}

func TestHeldCallIsHeldWhileTheCircuitIsOpen(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.held("pay", "held", `{}`)
}

// The process of the probe ends before it records an answer.
func TestProbeOfALostProcessMakesPlaceForAnother(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	c.open()
	c.pauseIsOver()
	dies := func(func() bool) { panic("the process ends here") }
	r.provider.dialing.Store(&dies)
	r.engine.dead.Store(true)
	lost := r.claimOnly(new(time.Minute), nil)
	_, err := r.Send(t.Context(), ref(lost))
	require.Error(t, err)
	r.engine.dead.Store(false)
	require.Equal(t, run.StateSending, r.read(lost).State)
	require.Equal(t, fault.CodeCircuitOpen, r.must(r.do("pay", "beside", `{}`)).Run.ErrorCode)
	r.admin(`UPDATE runs SET updated_at = now() - interval '7 s' WHERE id = $1`, lost.ID)
	require.Equal(t, run.StateExecuted, r.must(r.do("pay", "after", `{}`)).Run.State)
	require.Equal(t, circuit.Gate{}, c.gate())
}

// Another transaction has locked the row. What a call would have noted is noted later.
func TestFailingCallsDoNotWaitForTheRowOfTheCircuit(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	r.answers(500)
	r.must(r.do("pay", "first", `{}`))
	require.NoError(t, r.db.InTenant(t.Context(), r.tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT FROM circuits FOR UPDATE`)
		require.NoError(t, err)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if out, err := r.do("pay", fmt.Sprintf("at-once-%d", i), `{}`); err != nil || out.Run.ErrorCode != fault.CodeProviderError {
					t.Error(out.Run.ErrorCode, err)
				}
			})
		}
		all.Wait()
		return nil
	}))
	require.Equal(t, 1, r.count(`SELECT failures FROM circuits`))
	r.must(r.do("pay", "last", `{}`))
	require.Equal(t, "open 10", r.text(`SELECT state || ' ' || failures FROM circuits`))
	require.Equal(t, "circuit.opened 10", c.records())
}

func TestReadBackIsNotMadeAtAnOpenCircuit(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.PollEvery = time.Minute })
	r.engine.service = r.Service
	r.answers(500)
	r.must(r.do("pay", "fails", `{}`))
	sent := r.provider.effects.Load()
	r.declares("read")
	r.provider.replies(func(n int64) run.Answer {
		if n > sent+1 {
			return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{"id":"p1"}`)}
		}
		c.admin(`UPDATE circuits SET state = 'open', probe_at = now() + interval '1 hour'`)
		return run.Answer{Phase: attempt.Sent}
	})
	require.Equal(t, run.StateOutcomeUnknown, r.must(r.do("pay", "one", `{"id":"p1"}`)).Run.State)
	require.Equal(t, sent+1, r.provider.effects.Load())
}

// The trip that authenticates the caller comes before these; see docs/reference/costs.md.
func TestCircuitCostsNoTrip(t *testing.T) {
	t.Parallel()
	r, c := newCircuitRig(t)
	count := r.counting(true)
	r.must(r.do("pay", "warm", `{}`))
	trips := func(id string) int64 {
		before := count.n.Load()
		r.must(r.do("pay", id, `{}`))
		return count.n.Load() - before
	}
	r.answers(500)
	require.EqualValues(t, 3, trips("fails"), "with the first failure")
	require.EqualValues(t, 3, trips("fails again"))
	r.answers(200)
	require.EqualValues(t, 3, trips("succeeds"), "with the end of the failures")
	c.open()
	require.EqualValues(t, 2, trips("refused"))
	c.pauseIsOver()
	require.EqualValues(t, 3, trips("probe"))
}

func TestCircuitGoesWithItsProvider(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"deleted":             `DELETE FROM providers WHERE tenant_id = $1`,
		"at another base URL": `UPDATE providers SET base_url = 'https://moved.example' WHERE tenant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, c := newCircuitRig(t)
			c.open()
			r.admin(`UPDATE providers SET name = 'Renamed' WHERE tenant_id = $1`, r.tenant)
			require.Equal(t, 1, r.count(`SELECT count(*) FROM circuits`))
			r.admin(change, r.tenant)
			require.Zero(t, r.count(`SELECT count(*) FROM circuits`))
		})
	}
}

// The provider is deleted while a call is under way, which then fails.
func TestLateFailureLeavesNoCircuitOfADeletedProvider(t *testing.T) {
	t.Parallel()
	r, _ := newCircuitRig(t)
	r.provider.replies(func(int64) run.Answer {
		r.admin(`DELETE FROM providers WHERE tenant_id = $1`, r.tenant)
		return run.Answer{Phase: attempt.Answered, Status: 500, Complete: true}
	})
	require.Equal(t, fault.CodeProviderError, r.must(r.do("pay", "one", `{}`)).Run.ErrorCode)
	require.Zero(t, r.count(`SELECT count(*) FROM circuits`))
}
