package run_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/flow"
)

// trips counts round trips: a statement by itself is one, and so is a batch.
type trips struct{ n atomic.Int64 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// counting makes the service again, over a pool whose round trips are counted.
func (r *rig) counting(oneProcess bool) *trips {
	r.t.Helper()
	count := &trips{}
	pool, err := db.Open(r.t.Context(), db.Config{URL: r.db.AppURL, Tracer: count})
	require.NoError(r.t, err)
	r.t.Cleanup(pool.Close)
	r.db.Pool = pool
	r.Service, _ = r.process(r.engine, func(c *run.Config) { c.OneProcess, c.PollEvery = oneProcess, time.Minute })
	r.engine.service = r.Service
	return count
}

// The trip that authenticates the caller comes before these; see docs/reference/costs.md.
func TestRunTakesThreeTripsAndOneMoreApart(t *testing.T) {
	t.Parallel()
	for oneProcess, want := range map[bool]int64{true: 3, false: 4} {
		r := newRig(t)
		count := r.counting(oneProcess)
		_, err := r.do("pay", "warm", `{}`) // connects and prepares
		require.NoError(t, err)
		before := count.n.Load()
		_, err = r.do("pay", "once", `{}`)
		require.NoError(t, err)
		require.Equal(t, want, count.n.Load()-before, "in one process: %v", oneProcess)
		require.EqualValues(t, 2, r.targets.taken.Load(), "judged by what was read with the row")
		before = count.n.Load()
		_, err = r.do("pay", "once", `{}`)
		require.NoError(t, err)
		require.EqualValues(t, 1, count.n.Load()-before, "a repeat")
		require.EqualValues(t, 2, r.targets.taken.Load(), "a repeat asks for nothing")
	}
}

// windowed makes the policies count, over the same pool as the service: as internal/service/dispatch does
// it for the targets of the product. Their windows are filled.
func (r *rig) windowed(list ...governance.Policy) {
	r.t.Helper()
	sets, err := policy.NewSets(r.db.Pool)
	require.NoError(r.t, err)
	count := func(ctx context.Context, c *governance.Call) error {
		if c.Windows = r.targets.policies.Load().Windows(*c); c.Windows == nil {
			return nil
		}
		key, err := r.keys.Key(ctx, r.tenant)
		if err != nil {
			return err
		}
		return sets.Count(ctx, r.tenant, key, c.Windows, c.Context.RunID)
	}
	r.targets.count.Store(&count)
	r.policies(list...)
	for _, w := range governance.WindowDefs(list) {
		r.admin(`INSERT INTO policy_windows (tenant_id, series, id, per, filled, seen) VALUES ($1, gen_random_uuid(), $2, $3, true, gen_random_uuid())`,
			r.tenant, w.ID[:], int(w.Longest/time.Minute))
	}
}

// A window costs nothing where no policy with one may be about the call, and the call that is only counted
// takes no trip more; see docs/reference/costs.md.
func TestWindowTakesOneTripWhereItIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb     string
		matching *governance.Matching
		trips    int64
		entries  int
	}{
		"about another verb": {"keyed", nil, 3, 0},
		"only counted":       {"keyed", governance.MatchingAny(governance.Matcher{Type: governance.MatchVerb, Value: "shop:pay"}), 3, 1},
		"judged":             {"pay", nil, 4, 1},
		"judged and not counted": {
			"pay", governance.MatchingAny(governance.Matcher{Type: governance.MatchVerb, Value: "shop:keyed"}), 4, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			count := r.counting(true)
			limit := rule(governance.ActionBlock, c.verb)
			limit.Conditions = []governance.Condition{{
				Window: &governance.Window{By: "customer_id", Per: "1h", Count: true, Matching: c.matching}, Operator: governance.OpGreater, Value: json.RawMessage("5"),
			}}
			r.windowed(limit)
			for i, id := range []string{"warm", "counted"} {
				before := count.n.Load()
				out := r.must(r.do("pay", id, `{}`, func(q *run.Request) { q.Metadata = json.RawMessage(`{"customer_id":"ada"}`) }))
				require.Equal(t, run.StateExecuted, out.Run.State)
				if i > 0 { // the first connects and prepares
					require.Equal(t, c.trips, count.n.Load()-before)
				}
			}
			require.Equal(t, 2*c.entries, r.count(`SELECT count(*) FROM window_entries`))
		})
	}
}

// slow starts workflows a while after the claim.
type slow struct {
	*engine

	rig *rig
}

func (e slow) StartRun(ctx context.Context, in flow.ActionRunInput, id string, listing flow.Listing) error {
	e.rig.ahead.Add(int64(6 * time.Second))
	return e.engine.StartRun(ctx, in, id, listing)
}

func TestRunThatWaitedForItsWorkflowIsReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Service, _ = r.process(slow{r.engine, r})
	r.engine.service = r.Service
	out, err := r.do("pay", "late", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.Zero(t, r.targets.taken.Load())
}

// The desk adds four trips: authenticate, the approval, the proposal, and the approval again.
// See docs/reference/costs.md.
func TestDecisionIsCountedAndSentInSixTrips(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.counting(true)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	user := r.user("approver")
	for i, id := range []string{"warm", "counted"} {
		x := r.held("pay", id, `{}`)
		before := count.n.Load()
		require.True(t, r.decide(x, user, "approve").Closed)
		decided := count.n.Load()
		r.engine.walk(t.Context(), ref(x), x.WorkflowID)
		sent := count.n.Load()
		require.Equal(t, run.StateExecuted, r.read(x).State)
		if i > 0 { // the first prepares
			require.EqualValues(t, 2+2, decided-before, "r.decide counts twice")
			require.EqualValues(t, 4, sent-decided)
		}
	}
}

// The trip that authenticates the caller comes before; see docs/reference/costs.md.
func TestReadOfARunThatWaitsTakesOneTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.counting(true)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.held("pay", "waits", `{}`)
	for range 3 {
		taken, before := r.targets.taken.Load(), count.n.Load()
		x, err := r.Get(t.Context(), r.caller(), "waits")
		require.NoError(t, err)
		r.Shown(t.Context(), x)
		require.EqualValues(t, 1, count.n.Load()-before)
		require.EqualValues(t, 1, r.targets.taken.Load()-taken, "masked by what was read with the row")
	}
}
