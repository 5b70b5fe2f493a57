package api

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
)

// runner answers with a run that is under way until it was waited for.
type runner struct {
	Runs
	filter run.Filter
	until  time.Time
	over   bool
}

func (r *runner) List(_ context.Context, _ actor.Actor, f run.Filter) ([]run.Run, bool, error) {
	r.filter = f
	return nil, false, nil
}

func (r *runner) Get(context.Context, actor.Actor, string) (run.Run, error) {
	out := run.Run{ExecutionID: "e", State: run.StateClaimed, CreatedAt: someday}
	if r.over {
		out.State, out.FinishedAt = run.StateExecuted, &someday
	}
	return out, nil
}

func (r *runner) Await(_ context.Context, got run.Run, until time.Time) (run.Run, error) {
	r.until, r.over = until, true
	return got, nil
}

func (r *runner) Shown(_ context.Context, got run.Run) run.Run { return got }

func runsServer(t *testing.T, r *runner, now func() time.Time) *Server {
	t.Helper()
	d := deskDeps(newDesk())
	d.Runs, d.Now, d.Executions, d.Conversations = r, now, struct{ Executions }{}, struct{ Conversations }{}
	return bareServer(d)
}

func TestExecutionFiltersReachTheDomain(t *testing.T) {
	t.Parallel()
	r := &runner{}
	s := runsServer(t, r, time.Now)
	id := uuid.New()
	for query, want := range map[string]run.Filter{
		"dry_run=true": {DryRun: new(true)}, "dry_run=false": {DryRun: new(false)}, "decision=Block": {Decision: "block"},
		"risk_level=HIGH": {RiskLevel: "high"}, "api_key_id=" + id.String(): {KeyID: &id}, "policy_id=" + id.String(): {PolicyID: &id},
		"grant_id=" + id.String(): {GrantID: &id}, "approval_id=appr_1": {ApprovalID: "appr_1"}, "customer_id=c": {CustomerID: "c"},
		"from=2026-01-02T03:04:05.678Z": {Since: &someday}, "to=2026-01-02T03:04:05.678Z": {Until: &someday},
	} {
		want.Limit = 100
		w := ask(t, s, http.MethodGet, "/v1/executions?"+query, "jwt", "")
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", query, w.Body)
		require.Equal(t, want, r.filter, query)
	}
	for _, query := range []string{"dry_run=maybe", "decision=perhaps", "risk_level=none", "api_key_id=1", "policy_id=x", "grant_id=x", "from=yesterday", "since=2026-01-02T03:04:05Z"} {
		require.Equal(t, http.StatusBadRequest, ask(t, s, http.MethodGet, "/v1/executions?"+query, "jwt", "").Code, query)
	}
}

func TestExecutionStatusOfAnotherKindNamesTheKind(t *testing.T) {
	t.Parallel()
	s := runsServer(t, &runner{}, time.Now)
	for status, want := range map[string]string{
		"completed": "rejected, expired or cancelled. Maps, messages and goals have this status: add kind=map, kind=message or kind=goal.",
		"Paused":    "add kind=map, kind=message or kind=goal.",
		"waiting":   "rejected, expired or cancelled. Maps have this status: add kind=map.",
		"none":      "rejected, expired or cancelled.\"",
	} {
		w := ask(t, s, http.MethodGet, "/v1/executions?status="+status, "jwt", "")
		require.Equal(t, http.StatusBadRequest, w.Code, status)
		require.Contains(t, w.Body.String(), want, status)
	}
}

func TestExecutionNamesItsRequesterAsApprovalsDo(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for want, r := range map[string]run.Run{"key:" + id.String(): {State: run.StatePending, Origin: run.Origin{KeyID: &id}}, "user:" + id.String(): {State: run.StatePending, Origin: run.Origin{UserID: &id}}} {
		require.Equal(t, want, *viewRun(r, someday).Requester)
		require.Equal(t, want, *viewApproval(desk.Approval{Requester: actor.CallerOf(r.KeyID, r.UserID)}).Requester)
	}
	require.Nil(t, viewRun(run.Run{State: run.StatePending}, someday).Requester)
	require.Nil(t, viewApproval(desk.Approval{}).Requester)
}

func TestExecutionIsWaitedForAsPreferSays(t *testing.T) {
	t.Parallel()
	for prefer, want := range map[string]time.Duration{"": 0, "wait=0": 0, "wait=7": 7 * time.Second, "wait=90": time.Minute} {
		r := &runner{}
		w := ask(t, runsServer(t, r, func() time.Time { return someday }), http.MethodGet, "/v1/executions/e", "jwt", "", "Prefer", prefer)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		if want == 0 {
			require.Zero(t, r.until, prefer)
			require.Contains(t, w.Body.String(), `"status":"running"`)
			continue
		}
		require.Equal(t, someday.Add(want), r.until, prefer)
		require.Contains(t, w.Body.String(), `"status":"executed"`)
	}
	w := ask(t, runsServer(t, &runner{}, time.Now), http.MethodGet, "/v1/executions/e", "jwt", "", "Prefer", "wait=long")
	require.Equal(t, http.StatusBadRequest, w.Code)
}

// The duration of a run that goes on grows with each reading, and is no change.
func TestExecutionTagStaysWhileNothingHappens(t *testing.T) {
	t.Parallel()
	now := someday
	r := &runner{}
	s := runsServer(t, r, func() time.Time { return now })
	tag := func() string { return ask(t, s, http.MethodGet, "/v1/executions/e", "jwt", "").Header().Get("ETag") }
	first := tag()
	now = now.Add(time.Second)
	require.Equal(t, first, tag())
	require.Equal(t, http.StatusNotModified, ask(t, s, http.MethodGet, "/v1/executions/e", "jwt", "", "If-None-Match", first).Code)
	r.over = true
	require.NotEqual(t, first, tag())
}

func TestRegistryHasEachKindOfExecutionOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for _, kind := range assemble(Deps{}).executions.kinds() {
		names = append(names, kind.names...)
		require.NotEmpty(t, kind.statuses, kind.names)
		require.NotNil(t, kind.list, kind.names)
		require.NotNil(t, kind.find, kind.names)
	}
	require.ElementsMatch(t, allKinds(), names)
}
