package run_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// budget sets how many writes the tenant, or the key, may send in this month.
func (r *rig) budget(subject uuid.UUID, most int) {
	r.t.Helper()
	r.admin(`SELECT set_budget($1, $2, 'write_calls', $3, $4)`, r.tenant, subject, uuid.New(), most)
}

// written returns how many writes are counted, of the tenant and of its key.
func (r *rig) written() [2]int {
	r.t.Helper()
	of := `SELECT coalesce(sum(c.used), 0) FROM budget_counters c JOIN budgets b ON b.id = c.budget_id WHERE b.subject %s b.tenant_id`
	return [2]int{r.count(fmt.Sprintf(of, "=")), r.count(fmt.Sprintf(of, "<>"))}
}

func TestWriteOverTheBudgetIsRefusedAndItsIDIsFree(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]func(*rig) uuid.UUID{
		"this tenant": func(r *rig) uuid.UUID { return r.tenant }, "this API key": func(r *rig) uuid.UUID { return r.key },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.budget(r.tenant, 10)
			r.budget(r.key, 10)
			r.budget(subject(r), 1)
			require.Equal(t, run.StateExecuted, r.must(r.do("pay", "one", `{}`)).Run.State)
			over := r.must(r.do("pay", "two", `{}`)).Run
			require.Equal(t, run.StateRefused, over.State)
			f := over.Fault()
			require.Equal(t, fault.CodeBudgetExceeded, f.Code)
			require.Contains(t, f.Message, "write calls of "+name+" is used up")
			require.True(t, f.Retryable)
			left := r.count(`SELECT extract(epoch FROM date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month' - now() AT TIME ZONE 'UTC')::bigint`)
			require.InDelta(t, left, f.RetryAfter.Seconds(), 60)
			require.EqualValues(t, 1, r.provider.effects.Load())
			require.Equal(t, [2]int{1, 1}, r.written(), "nothing of the refused call stays counted")
			require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE execution_id = 'two' AND action = 'run.refused' AND details::text LIKE '%BUDGET_EXCEEDED%'`))
			require.Zero(t, r.count(`SELECT count(*) FROM audit_records WHERE execution_id = 'two' AND action IN ('run.allowed', 'run.notified')`))

			require.Equal(t, run.StateRefused, r.must(r.do("pay", "two", `{}`)).Run.State, "the id is free, and the budget is not")
			r.budget(subject(r), 2)
			require.Equal(t, run.StateExecuted, r.must(r.do("pay", "two", `{}`)).Run.State)
			require.Equal(t, [2]int{2, 2}, r.written())
		})
	}
}

// Only a write that is really sent counts, and each once.
func TestOnlyWritesThatAreSentCount(t *testing.T) {
	t.Parallel()
	again := attempt.Answered
	for name, tc := range map[string]struct {
		verb    string
		args    string
		dryRun  bool
		repeat  bool
		answers []run.Answer
		policy  governance.Action
		want    int
	}{
		"executed":                        {verb: "pay", want: 1},
		"repeated":                        {verb: "pay", repeat: true, want: 1},
		"a read":                          {verb: "read"},
		"refused arguments":               {verb: "pay", args: `{"bad":true}`},
		"a dry run":                       {verb: "pay", dryRun: true},
		"blocked":                         {verb: "pay", policy: governance.ActionBlock},
		"held":                            {verb: "pay", policy: governance.ActionRequireApproval},
		"refused by the provider":         {verb: "pay", answers: []run.Answer{{Phase: again, Status: 402, Complete: true}}, want: 1},
		"of an unknown outcome":           {verb: "pay", answers: []run.Answer{{Phase: attempt.Sent}}, want: 1},
		"not sent, and sent again":        {verb: "pay", answers: []run.Answer{{Phase: attempt.NotSent}}, want: 1},
		"maybe sent, and sent again":      {verb: "keyed", answers: []run.Answer{{Phase: attempt.Sent}}, want: 1},
		"never sent":                      {verb: "pay", answers: []run.Answer{{Phase: attempt.NotSent}, {Phase: attempt.NotSent}, {Phase: attempt.NotSent}, {Phase: attempt.NotSent}, {Phase: attempt.NotSent}}},
		"refused by the provider's limit": {verb: "pay", answers: []run.Answer{{Phase: again, Status: 429, Complete: true, RetryAfter: time.Hour}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.budget(r.tenant, 5)
			r.budget(r.key, 5000)
			if tc.policy != "" {
				r.policies(rule(tc.policy, "pay"))
			}
			r.provider.replies(func(n int64) run.Answer {
				if int(n) <= len(tc.answers) {
					return tc.answers[n-1]
				}
				return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: []byte(`{}`)}
			})
			args := tc.args
			if args == "" {
				args = `{}`
			}
			calls := 1
			if tc.repeat {
				calls = 3
			}
			for range calls {
				_, _ = r.do(tc.verb, "one", args, func(q *run.Request) { q.DryRun = tc.dryRun })
			}
			require.Equal(t, [2]int{tc.want, tc.want}, r.written())
			require.Equal(t, tc.want, r.count(`SELECT count(*) FROM runs WHERE charged IS NOT NULL AND charged_month IS NOT NULL`))
		})
	}
}

// A call that people approved meets the budget when it is sent.
func TestApprovedCallOverTheBudgetIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.budget(r.tenant, 1)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	user := r.user("approver")
	x := r.held("refund", "held", `{}`)
	require.Equal(t, run.StateExecuted, r.must(r.do("pay", "first", `{}`)).Run.State)
	require.True(t, r.decide(x, user, "approve").Closed)
	r.engine.walk(t.Context(), ref(x), x.WorkflowID)
	over := r.read(x)
	require.Equal(t, run.StateRefused, over.State)
	require.Equal(t, fault.CodeBudgetExceeded, over.Fault().Code)
	require.EqualValues(t, 1, r.provider.effects.Load())
	require.Equal(t, "approved", r.text(`SELECT status FROM approvals WHERE run_id IS NOT NULL`))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM events WHERE type = 'action.failed'`))
	r.budget(r.tenant, 2)
	require.Equal(t, run.StatePending, r.must(r.do("refund", "held", `{}`)).Run.State, "the id is free, and people are asked again")
}

// A crash between the mark and the answer leaves a call that may have been sent: it counts.
func TestCallOfACrashedProcessCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.budget(r.tenant, 5)
	r.engine.dead.Store(true)
	none := time.Duration(0)
	x := r.must(r.do("pay", "one", `{}`, func(q *run.Request) { q.Wait = &none })).Run
	panics := func(func() bool) { panic("the process ends") }
	r.provider.dialing.Store(&panics)
	_, _ = r.Send(t.Context(), ref(x))
	require.Equal(t, run.StateSending, r.read(x).State)
	require.Equal(t, [2]int{1, 0}, r.written())
	r.admin(`UPDATE runs SET updated_at = now() - interval '1 minute'`)
	require.NoError(t, r.Sweep(t.Context()))
	step, err := r.another().Send(t.Context(), ref(x))
	require.NoError(t, err)
	require.Equal(t, flow.Step{State: run.StateOutcomeUnknown, Done: true}, step)
	require.Equal(t, [2]int{1, 0}, r.written())
}

// 64 racers through two processes: the provider sees exactly as many calls as the budget has.
func TestRacersNeverSendMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	const most = 23
	r := newRig(t)
	r.budget(r.tenant, most)
	r.budget(r.key, most+5)
	processes := []*run.Service{r.Service, r.another()}
	var executed, refused atomic.Int64
	var racers sync.WaitGroup
	for i := range 64 {
		racers.Go(func() {
			out, err := processes[i%2].Do(t.Context(), r.caller(), run.Request{Verb: "shop:pay", Args: []byte(`{}`), ExecutionID: fmt.Sprint("racer-", i), Metadata: []byte(`{}`)})
			switch {
			case err != nil:
				t.Error(err)
			case out.Run.State == run.StateExecuted:
				executed.Add(1)
			case out.Run.ErrorCode == fault.CodeBudgetExceeded:
				refused.Add(1)
			default:
				t.Error(out.Run.State, out.Run.ErrorCode)
			}
		})
	}
	racers.Wait()
	require.EqualValues(t, most, executed.Load())
	require.EqualValues(t, 64-most, refused.Load())
	require.EqualValues(t, most, r.provider.effects.Load())
	require.Equal(t, [2]int{most, most}, r.written())
}

// A budget costs no trip: it is counted by the statement that is made anyway.
func TestBudgetCostsNoTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.counting(true)
	r.budget(r.tenant, 1000)
	r.budget(r.key, 1000)
	r.must(r.do("pay", "warm", `{}`))
	before := count.n.Load()
	r.must(r.do("pay", "once", `{}`))
	require.EqualValues(t, 3, count.n.Load()-before)
	require.Equal(t, [2]int{2, 2}, r.written())
}
