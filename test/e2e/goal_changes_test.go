package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// rehearsals are the answers of the scripted planner to dry runs: two writes after a read, or one.
var rehearsals = []string{
	plan([]string{"Rehearse the writes", `"f4"`}, "done", "", claim("made", "f2", "f3", "f4")),
	plan([]string{"Rehearse the writes", `"f3"`}, "act", next("gate:create_thing", `{"id":"late-whitebeam"}`)),
	plan([]string{"Rehearse the writes", `"f2"`}, "act", next("gate:create_thing", `{"id":"whitebeam","mode":"vanish"}`)),
	plan([]string{"Rehearse the writes", `"f1"`}, "act", next("gate:create_thing", `{"id":"early-whitebeam"}`)),
	plan([]string{"Rehearse the writes"}, "act", next("gate:get_thing", `{"id":"early-whitebeam"}`)),
	plan([]string{"Rehearse one write", `"f1"`}, "done", "", claim("made", "f1")),
	`{"purpose":"plan","contains":["Rehearse and break","f1"],"error":"the model is away"}`,
	plan([]string{"Rehearse and break"}, "act", next("gate:create_thing", `{"id":"wild-service"}`)),
	plan([]string{"Rehearse one write"}, "act", next("gate:create_thing", `{"id":"bullace"}`)),
}

type goalChanges struct {
	Status  *string
	Changes []struct {
		ID, Status, Verb string
		ApprovalID       *string `json:"approval_id"`
		ExecutionID      *string `json:"execution_id"`
	}
}

func (c goalChanges) statuses() (list []string) {
	for _, one := range c.Changes {
		list = append(list, one.Status)
	}
	return list
}

// rehearse makes a dry run of a goal, and returns the path of its changes.
func rehearse(t *testing.T, key *rig.Client, goals, text string) (p pursued, path string) {
	t.Helper()
	body := goalOf(text, criterion("made", ""))
	body["dryRun"] = true
	p = pursuedOf(t, key.Do(http.MethodPost, goals, body), http.StatusOK)
	return p, "/v1/executions/" + p.ExecutionID + "/changes"
}

func goalChangesOf(t *testing.T, a rig.Answer) (c goalChanges) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &c)
	return c
}

// A dry run of a goal reads, and writes nothing. People decide about its changes, which are then made
// once, in their order, up to the first that fails.
func TestDryRunOfAGoalYieldsItsChanges(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		_, goals, key := goalAgent(t, tenant, nil)
		p, path := rehearse(t, key, goals, "Rehearse the writes")
		require.Equal(t, "completed", p.Status)
		require.Equal(t, "criteria_met", *p.StopReason)
		require.Equal(t, 1, p.ActionsExecuted, "only the read was sent")
		require.Len(t, g.of("early-whitebeam"), 1)
		e := pursuedOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+p.ExecutionID, nil), http.StatusOK)
		require.Equal(t, "intercepted", e.Facts[1].Status)

		proposed := goalChangesOf(t, key.Do(http.MethodGet, path, nil))
		require.Equal(t, "proposed", *proposed.Status)
		require.Equal(t, []string{"proposed", "proposed", "proposed"}, proposed.statuses())
		var first struct {
			Pagination struct {
				NextCursor string `json:"next_cursor"`
			}
		}
		require.NoError(t, json.Unmarshal(key.Do(http.MethodGet, path+"?limit=1", nil).Body, &first))
		page := goalChangesOf(t, key.Do(http.MethodGet, path+"?limit=1&cursor="+first.Pagination.NextCursor, nil))
		require.Len(t, page.Changes, 1)
		require.Equal(t, proposed.Changes[1].ID, page.Changes[0].ID)
		require.Nil(t, page.Changes[0].ExecutionID)
		var asked struct {
			Kind, Status string
			ExpiresAt    time.Time `json:"expires_at"`
		}
		tenant.User.Do(http.MethodGet, "/v1/approvals/"+*page.Changes[0].ApprovalID, nil).Data(t, &asked)
		require.Equal(t, "dry_run", asked.Kind)
		require.Greater(t, time.Until(asked.ExpiresAt), 20*time.Hour, "people have longer than the agent")

		requireCode(t, key.Do(http.MethodPost, path+"/decide", map[string]any{"approve": "all"}), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
		stopped := goalChangesOf(t, tenant.User.Do(http.MethodPost, path+"/decide", map[string]any{"approve": "all"}, "Prefer: wait=60"))
		require.Equal(t, []string{"applied", "failed", "proposed"}, stopped.statuses())
		require.Equal(t, "stopped", *stopped.Status)
		require.Len(t, g.of("early-whitebeam"), 2)
		require.Empty(t, g.of("late-whitebeam"))
		again := goalChangesOf(t, tenant.User.Do(http.MethodPost, path+"/decide", map[string]any{"approve": "all"}))
		require.Equal(t, stopped.statuses(), again.statuses())
		requireCode(t, tenant.User.Do(http.MethodPost, path+"/decide", map[string]any{"reject": "all"}), http.StatusConflict, "CONFLICT")
		require.Equal(t, http.StatusOK, tenant.User.Decide(*stopped.Changes[2].ApprovalID, "approve", map[string]any{}).Status)
		rig.Until(t, time.Minute, "the last change is applied", func() bool {
			return goalChangesOf(t, key.Do(http.MethodGet, path, nil)).Changes[2].Status == "applied"
		})
		require.Len(t, g.of("late-whitebeam"), 1)
		require.Len(t, g.of("early-whitebeam"), 2)
	})
}

// Each way to decide about one change, and what is refused.
func TestChangesOfAGoalAreDecided(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, split))
	_, goals, key := goalAgent(t, tenant, nil)
	one := func(path string) string {
		return goalChangesOf(t, key.Do(http.MethodGet, path, nil)).Changes[0].ID
	}
	for i, c := range []struct {
		decision func(path string) map[string]any
		status   int
		want     string
	}{
		{func(string) map[string]any { return map[string]any{"reject": "all", "reason": "Not now."} }, http.StatusOK, "rejected"},
		{func(p string) map[string]any { return map[string]any{"approve": []string{one(p)}} }, http.StatusOK, "applied"},
		{func(p string) map[string]any { return map[string]any{"reject": []string{one(p)}, "approve": "all"} }, http.StatusOK, "rejected"},
		{func(string) map[string]any { return map[string]any{"approve": []string{}} }, http.StatusBadRequest, "proposed"},
		{func(string) map[string]any { return map[string]any{"approve": []string{"exec_other"}} }, http.StatusBadRequest, "proposed"},
	} {
		_, path := rehearse(t, key, goals, "Rehearse one write")
		a := tenant.User.Do(http.MethodPost, path+"/decide", c.decision(path), "Prefer: wait=60")
		require.Equal(t, c.status, a.Status, "%d %s", i, a.Body)
		now := goalChangesOf(t, key.Do(http.MethodGet, path, nil))
		require.Equal(t, []string{c.want}, now.statuses(), "%d", i)
		require.Equal(t, c.want, *now.Status)
		if c.want == "rejected" {
			requireCode(t, tenant.User.Do(http.MethodPost, path+"/decide", map[string]any{"approve": "all"}), http.StatusConflict, "CONFLICT")
		}
	}
	require.Len(t, g.of("bullace"), 1)

	real := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Stop me")), http.StatusOK)
	path := "/v1/executions/" + real.ExecutionID + "/changes"
	require.Empty(t, goalChangesOf(t, key.Do(http.MethodGet, path, nil)).Changes)
	requireCode(t, tenant.User.Do(http.MethodPost, path+"/decide", map[string]any{"approve": "all"}), http.StatusConflict, "CONFLICT")
	nothing, path := rehearse(t, key, goals, "Stop me")
	require.Equal(t, "failed", nothing.Status)
	requireCode(t, tenant.User.Do(http.MethodPost, path+"/decide", map[string]any{"approve": "all"}), http.StatusConflict, "CONFLICT")

	both := goalOf("Rehearse one write", criterion("made", ""))
	both["metadata"], both["session_id"] = map[string]any{"dry_run": true}, "s"
	requireCode(t, key.Do(http.MethodPost, goals, both), http.StatusBadRequest, "VALIDATION_ERROR")
}

// A dry run that fails has its changes all the same, so its key stays: a repeat makes no others. It asks
// nobody to take over, because nothing has happened.
func TestDryRunThatFailsKeepsItsKeyAndAsksNobody(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, stack(t, eager))
	_, goals, key := goalAgent(t, tenant, map[string]any{"escalation": map[string]any{"on_limit": true}})
	_, eagerGoals, eagerKey := goalAgent(t, tenant, map[string]any{"escalation": map[string]any{"on_failure": true}})
	body := goalOf("Rehearse and break", criterion("made", ""))
	body["dryRun"] = true
	first := requireCode(t, key.Do(http.MethodPost, goals, body, "Idempotency-Key: k"), http.StatusBadGateway, "MODEL_ERROR")
	again := requireCode(t, key.Do(http.MethodPost, goals, body, "Idempotency-Key: k"), http.StatusBadGateway, "MODEL_ERROR")
	require.Equal(t, first.Error.ExecutionID, again.Error.ExecutionID)
	require.Len(t, goalChangesOf(t, key.Do(http.MethodGet, "/v1/executions/"+first.Error.ExecutionID+"/changes", nil)).Changes, 1)

	requireCode(t, eagerKey.Do(http.MethodPost, eagerGoals, body), http.StatusBadGateway, "MODEL_ERROR")

	capped := goalOf("Rehearse one write", criterion("made", madeCheck))
	capped["dryRun"], capped["limits"] = true, map[string]any{"goal_steps": 1}
	p := pursuedOf(t, key.Do(http.MethodPost, goals, capped), http.StatusOK)
	require.Equal(t, "failed", p.Status)
	require.Equal(t, "step_cap", *p.StopReason)
	var events []struct{ Type string }
	tenant.User.Do(http.MethodGet, "/v1/events?type=escalation.created", nil).Data(t, &events)
	require.Empty(t, events)
}
