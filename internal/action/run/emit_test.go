package run_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/event"
)

// told returns the bodies of the events of the rig's tenant, the oldest first.
func (r *rig) told() (out []map[string]any) {
	r.t.Helper()
	events, err := event.New(event.Deps{DB: r.db.Pool, Keys: r.keys, Log: testkit.Quiet()})
	require.NoError(r.t, err)
	require.Eventually(r.t, func() bool { // transactions of other tests delay them
		page, _, err := events.After(r.t.Context(), r.tenant, event.Filter{}, event.Place{}, 500)
		if err != nil || len(page) != r.count("SELECT count(*) FROM events") {
			return false
		}
		out = nil
		for _, e := range page {
			var body map[string]any
			if json.Unmarshal(e.Body, &body) != nil || body["event_id"] != event.PublicID(e.ID) {
				return false
			}
			out = append(out, body)
		}
		return true
	}, time.Minute, 5*time.Millisecond, "every event is shown, under its id")
	return out
}

// types returns the types of the events.
func types(events []map[string]any) (out []string) {
	for _, e := range events {
		out = append(out, e["event"].(string))
	}
	return out
}

func TestRunTellsOfItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answers := map[string]run.Answer{
		"good":    {Phase: attempt.Answered, Status: 201, Complete: true, Result: json.RawMessage(`{"n":1}`)},
		"refused": {Phase: attempt.Answered, Status: 402, Complete: true, Result: json.RawMessage(`{"why":"poor"}`)},
		"lost":    {Phase: attempt.Sent},
	}
	for _, id := range []string{"good", "refused", "lost"} {
		r.provider.replies(func(int64) run.Answer { return answers[id] })
		_, err := r.do("pay", id, `{"amount":5}`, func(q *run.Request) { q.SessionID, q.Metadata = "s", json.RawMessage(`{"customer_id":"c"}`) })
		require.NoError(t, err)
	}
	events := r.told()
	require.Equal(t, []string{"action.notified", "action.executed", "action.notified", "action.failed", "action.notified", "action.outcome_unknown"}, types(events))
	for i, id := range []string{"good", "good", "refused", "refused", "lost", "lost"} {
		require.Equal(t, id, events[i]["execution_id"])
		require.Equal(t, "s", events[i]["session_id"])
		require.Equal(t, "c", events[i]["customer_id"])
	}
	require.Equal(t, map[string]any{"amount": 5.0}, events[0]["args"])
	require.Equal(t, map[string]any{"n": 1.0}, events[1]["result"])
	require.Equal(t, map[string]any{"why": "poor"}, events[3]["result"])
	require.EqualValues(t, http.StatusPaymentRequired, events[3]["provider_status"])
	require.Equal(t, "OUTCOME_UNKNOWN", events[5]["error"].(map[string]any)["code"])
	require.NotContains(t, r.text("SELECT string_agg(body, '') FROM events"), "amount", "sealed")
}

func TestRunThatReadsTellsOneThing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("read", "one", `{}`)
	require.NoError(t, err)
	_, err = r.do("read", "one", `{}`)
	require.NoError(t, err)
	require.Equal(t, []string{"action.executed"}, types(r.told()))
}

func TestLargeResultIsLeftOutOfItsEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for id, n := range map[string]int{"small": 60_000, "large": 70_000} {
		result, err := json.Marshal(map[string]string{"text": strings.Repeat("x", n)})
		require.NoError(t, err)
		r.provider.replies(func(int64) run.Answer {
			return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: result}
		})
		_, err = r.do("read", id, `{}`)
		require.NoError(t, err)
	}
	for _, e := range r.told() {
		large := e["execution_id"] == "large"
		require.Equal(t, large, e["result"] == nil)
		require.Equal(t, large, e["truncated"] == true)
	}
}

func TestHeldRunAsksAndBlockedRunTells(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("refund", "blocked", `{"a":1}`)
	require.NoError(t, err)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "held", `{"a":2}`)
	events := r.told()
	require.Equal(t, []string{"action.blocked", "approval.requested", "escalation.created"}, types(events))
	require.Equal(t, map[string]any{"a": 1.0}, events[0]["args"])
	require.Equal(t, *x.ApprovalID, events[1]["approval_id"])
	require.Equal(t, "hold", events[1]["kind"])
	require.Equal(t, map[string]any{"a": 2.0}, events[1]["args"])
	require.Equal(t, []any{map[string]any{"type": "execution", "id": "held"}}, events[1]["causes"])
}

// decisions returns the status of each approval that ended, and whether people were asked again.
func decisions(events []map[string]any) (out []string) {
	for _, e := range events {
		switch e["event"] {
		case "approval.decided":
			out = append(out, e["status"].(string))
		case "approval.requested":
			out = append(out, "requested")
		}
	}
	return out
}

func TestApprovalTellsHowItEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(r *rig, x run.Run)
		want []string
	}{
		"approved":  {func(r *rig, x run.Run) { r.decide(x, r.user("approver"), "approve") }, []string{"requested", "approved"}},
		"rejected":  {func(r *rig, x run.Run) { r.decide(x, r.user("approver"), "reject") }, []string{"requested", "rejected"}},
		"cancelled": {func(r *rig, x run.Run) { r.cancel(x) }, []string{"requested", "cancelled"}},
		"expired":   {func(r *rig, x run.Run) { r.late(x) }, []string{"requested", "expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.policies(rule(governance.ActionRequireApproval, "pay"))
			x := r.held("pay", "held", `{}`)
			c.end(r, x)
			require.Equal(t, c.want, decisions(r.told()))
		})
	}
}

// cancel ends the run as its caller.
func (r *rig) cancel(x run.Run) {
	r.t.Helper()
	_, err := r.Cancel(r.t.Context(), r.caller(), x.ExecutionID)
	require.NoError(r.t, err)
}

// late lets the approval's time pass.
func (r *rig) late(x run.Run) {
	r.t.Helper()
	r.ahead.Store(int64(25 * time.Hour))
	_, err := r.Govern(r.t.Context(), ref(x))
	require.NoError(r.t, err)
}

func TestUnknownOutcomeThatIsSettledTellsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	_, err := r.do("pay", "lost", `{}`)
	require.NoError(t, err)
	_, err = r.Resolve(t.Context(), r.caller(), "lost", run.Resolution{Executed: true, Result: json.RawMessage(`{"seen":true}`), Reason: "looked"})
	require.NoError(t, err)
	events := r.told()
	require.Equal(t, []string{"action.notified", "action.outcome_unknown", "action.executed"}, types(events))
	require.Equal(t, true, events[2]["resolved"])
	require.Equal(t, map[string]any{"seen": true}, events[2]["result"])
}

func TestRunThatIsSentAgainNotifiesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(n int64) run.Answer {
		if n < 3 {
			return run.Answer{Phase: attempt.NotSent}
		}
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	_, err := r.do("pay", "again", `{}`)
	require.NoError(t, err)
	require.Equal(t, []string{"action.notified", "action.executed"}, types(r.told()))
}
