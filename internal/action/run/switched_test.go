package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/killswitch"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// switches is what sets and lifts the kill switches of the rig's tenant.
func (r *rig) switches() (*killswitch.Service, actor.Actor) {
	r.t.Helper()
	s, err := killswitch.New(killswitch.Deps{DB: r.db.Pool})
	require.NoError(r.t, err)
	return s, actor.Actor{Kind: actor.User, ID: r.tenant, TenantID: r.tenant, Role: actor.RoleOwner}
}

// switchOff sets a kill switch of the whole tenant and returns what lifts it. unseen: calls are
// judged as if it were not there, as just before it was set.
func (r *rig) switchOff(unseen bool) (lift func()) {
	r.t.Helper()
	s, who := r.switches()
	set, err := s.Set(context.WithoutCancel(r.t.Context()), who, killswitch.NewSwitch{Scope: "tenant", Reason: "too many orders"})
	require.NoError(r.t, err)
	if !unseen {
		r.targets.switches.Store(&[]governance.KillSwitch{set.KillSwitch})
	}
	return func() {
		r.t.Helper()
		require.NoError(r.t, s.Lift(r.t.Context(), who, set.ID, nil))
		r.targets.switches.Store(nil)
	}
}

// The switch is set between the judgement and the mark. The mark's own statement sees it.
func TestGateIsClosedForACallThatWasJudgedBeforeTheKillSwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	none := time.Duration(0)
	out := r.must(r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &none }))
	_, err := r.Govern(t.Context(), ref(out.Run))
	require.NoError(t, err)
	lift := r.switchOff(false)
	step, err := r.Send(t.Context(), ref(out.Run))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateBlocked, Done: true}, step)
	require.Zero(t, r.provider.effects.Load())
	blocked := r.read(out.Run)
	require.Equal(t, fault.CodeGovernanceBlocked, blocked.ErrorCode)
	require.Contains(t, blocked.Reason, `"too many orders"`)
	require.NotNil(t, blocked.ApprovalID)
	lift()
	r.engine.dead.Store(false)
	require.Equal(t, run.StateExecuted, r.must(r.do("pay", "one", `{}`)).Run.State, "the id is free")
}

// The POST waits for the calls that are between their last check and the commit of their mark.
func TestKillSwitchWaitsForRunsAtTheGate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, who := r.switches()
	set := make(chan error, 1)
	require.NoError(t, r.db.InTenant(t.Context(), r.tenant, func(tx pgx.Tx) error {
		gate := dbsqlc.EnterGateParams{TenantID: r.tenant.String(), Provider: "shop"}
		require.NoError(t, dbsqlc.New().EnterGate(t.Context(), tx, gate))
		go func() {
			_, err := s.Set(t.Context(), who, killswitch.NewSwitch{Scope: "verb", Target: "shop:pay", Reason: "x"})
			set <- err
		}()
		require.Eventually(t, func() bool {
			return len(set) > 0 || r.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
			                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
		}, time.Minute, time.Millisecond)
		require.Empty(t, set, "the kill switch did not wait")
		return nil
	}))
	require.NoError(t, <-set)
}

// A call that may have been sent is not repeated under a kill switch. It waits within its time.
func TestCallThatMayHaveBeenSentWaitsForTheLift(t *testing.T) {
	t.Parallel()
	for name, lifted := range map[string]bool{"lifted in time": true, "not lifted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.engine.dead.Store(true)
			r.provider.replies(func(n int64) run.Answer {
				if n == 1 {
					return run.Answer{Phase: attempt.Answered, Status: 504, Complete: true}
				}
				return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{}`)}
			})
			none := time.Duration(0)
			x := r.must(r.do("keyed", "one", `{}`, func(q *run.Request) { q.Wait = &none })).Run
			step, err := r.Send(t.Context(), ref(x))
			require.NoError(t, err)
			require.Equal(t, run.StateClaimed, step.State)
			lift := r.switchOff(false)
			for range 3 {
				r.ahead.Add(int64(step.After))
				step, err = r.Send(t.Context(), ref(x))
				require.NoError(t, err)
				require.Equal(t, run.StateClaimed, step.State)
				require.GreaterOrEqual(t, step.After, 2*time.Second)
			}
			want := run.StateExecuted
			if lifted {
				lift()
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

// A lift in the last minute of a run's time is noticed, although runs that have waited for long look
// every minute only.
func TestLiftShortlyBeforeTheEndOfTheTimeIsNoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	r.provider.replies(func(n int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: map[bool]int{true: 504, false: 200}[n == 1], Complete: true, Result: []byte(`{}`)}
	})
	none := time.Duration(0)
	x := r.must(r.do("keyed", "one", `{}`, func(q *run.Request) { q.Wait = &none })).Run
	step, err := r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	lift := r.switchOff(false)
	for waits := 0; !step.Done; waits++ {
		require.Less(t, waits, 100)
		end := r.read(x).ExpiresAt
		require.NotNil(t, end)
		if left := time.Until(*end) - time.Duration(r.ahead.Load()); left < 10*time.Second {
			lift()
			require.LessOrEqual(t, step.After, 5*time.Second)
		}
		r.ahead.Add(int64(step.After))
		step, err = r.Send(t.Context(), ref(x))
		require.NoError(t, err)
	}
	require.Equal(t, run.StateExecuted, step.State)
}

// A read that was answered 503 had no effect, so nothing is in doubt: it ends, and its id is free.
func TestRetryOfAReadIsBlocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.dead.Store(true)
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Answered, Status: 503, Complete: true} })
	none := time.Duration(0)
	x := r.must(r.do("read", "one", `{}`, func(q *run.Request) { q.Wait = &none })).Run
	step, err := r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StateClaimed, step.State)
	r.ahead.Add(int64(step.After))
	r.switchOff(false)
	step, err = r.Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateBlocked, Done: true}, step)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

// People are asked once: the call that a change of policies would have judged again is held again.
func TestSupersededCallIsHeldAgainUnderAKillSwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{}`)
	r.switchOff(false)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	hash := "another base address"
	r.targets.schema.Store(&hash)
	step, err := r.Govern(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, run.StatePending, step.State)
	require.NotEqual(t, *x.ApprovalID, step.ApprovalID)
}

// A read-back is a call of the provider too, and no kill switch is passed by it.
func TestReadBackIsNotMadeUnderAKillSwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.PollEvery = time.Minute })
	r.engine.service = r.Service
	r.declares("read")
	r.provider.replies(func(n int64) run.Answer {
		if n > 1 {
			return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{"id":"p1"}`)}
		}
		r.switchOff(true)
		return run.Answer{Phase: attempt.Sent}
	})
	out := r.must(r.do("pay", "one", `{"id":"p1"}`))
	require.Equal(t, run.StateOutcomeUnknown, out.Run.State)
	require.EqualValues(t, 1, r.provider.effects.Load())
}

func TestLiftIsRefusedTwiceAndForAnotherTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, who := r.switches()
	set, err := s.Set(t.Context(), who, killswitch.NewSwitch{Scope: "tenant", Reason: "x"})
	require.NoError(t, err)
	other := who
	other.TenantID = uuid.New()
	require.True(t, fault.HasCode(s.Lift(t.Context(), other, set.ID, nil), fault.CodeKillSwitchNotFound))
	require.NoError(t, s.Lift(t.Context(), who, set.ID, nil))
	require.True(t, fault.HasCode(s.Lift(t.Context(), who, set.ID, nil), fault.CodeKillSwitchNotFound))
	page, _, err := s.List(t.Context(), r.tenant, killswitch.Filter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
	page, _, err = s.List(t.Context(), r.tenant, killswitch.Filter{Limit: 10, Lifted: true})
	require.NoError(t, err)
	require.Len(t, page, 1)
}
