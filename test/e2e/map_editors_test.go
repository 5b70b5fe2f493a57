package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// heldNow returns the path of the only approval of the tenant that is pending.
func heldNow(t *testing.T, c *rig.Client) string {
	t.Helper()
	var list []struct{ ID string }
	require.Eventually(t, func() bool {
		a := c.Do(http.MethodGet, "/v1/approvals?status=pending", nil)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		a.Data(t, &list)
		return len(list) == 1
	}, arriveLimit, 50*time.Millisecond)
	return "/v1/approvals/" + list[0].ID
}

// Who edits an input at a retry writes what the calls after it send. Nobody writes and releases a call
// alone, so another user approves these calls.
func TestEditorOfARetryDoesNotApproveItsCalls(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	approver := newApprover(t, tenant)
	inner := mapID(publish(t, tenant, "Writes", `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}]`))
	const check = `{"id":"check","type":"validate","value":"${trigger_data.id}","schema":{"maxLength":1}},`
	for name, c := range map[string]struct{ rest, edit string }{
		"the call":              {`{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}`, "made"},
		"what the call is from": {`{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${steps.check.output}"}}`, "check"},
		"what people judge":     {`{"id":"asked","type":"approval","title":"Write ${steps.check.output}?"}`, "check"},
		"a call of another Map": {`{"id":"other","type":"map","map_id":"` + inner + `","payload":{"id":"${steps.check.output}"}}`, "check"},
	} {
		list := ids(2)
		trigger := publish(t, tenant, name, "["+check+c.rest+"]")
		path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"id": list[0]}})
		edits := map[string]any{"check": list[1][:1]}
		if c.edit == "made" {
			edits["made"] = map[string]any{"id": list[1]}
		}
		again := tenant.User.Do(http.MethodPost, path+"/retry", map[string]any{"edits": edits}, "Prefer: wait=0")
		require.Equal(t, http.StatusAccepted, again.Status, "%s: %s", name, again.Body)
		asked := heldNow(t, tenant.User)
		refused := requireCode(t, tenant.User.Do(http.MethodPost, asked+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
		require.Contains(t, refused.Error.Message, "an edit", name)
		var me struct{ User struct{ ID string } }
		tenant.User.Do(http.MethodGet, "/v1/me", nil).Data(t, &me)
		var shown struct{ Editors []string }
		approver.Do(http.MethodGet, asked, nil).Data(t, &shown)
		require.Equal(t, []string{"user:" + me.User.ID}, shown.Editors, name)
		require.Equal(t, http.StatusOK, approver.Do(http.MethodPost, asked+"/approve", nil).Status, name)
		done := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", done.Status, name)
	}
	require.Len(t, g.all(), 3)
}

// A retry without edits writes nothing, so its author approves as before.
func TestRetryWithoutEditsLeavesItsAuthorAnApprover(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	trigger := publishAs(t, newAuthor(t, tenant), "Asks again", `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}]`)
	a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"id": ids(1)[0]}}, "Prefer: wait=0")
	path := "/v1/executions/" + executionIn(t, a)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, heldNow(t, tenant.User)+"/reject", nil).Status)
	require.Equal(t, "failed", mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK).Status)
	require.Equal(t, http.StatusAccepted, tenant.User.Do(http.MethodPost, path+"/retry", nil, "Prefer: wait=0").Status)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, heldNow(t, tenant.User)+"/approve", nil).Status)
}

// The changes of a dry run are what its inputs make of them.
func TestEditorOfADryRunDoesNotApproveItsChanges(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	approver := newApprover(t, tenant)
	trigger := publish(t, tenant, "Would write", `[{"id":"check","type":"validate","value":"${trigger_data.id}","schema":{"maxLength":1}},
		{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${steps.check.output}"}}]`)
	path := failed(t, tenant, trigger, map[string]any{"dry_run": true, "payload": map[string]any{"id": "long"}})
	done := mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/retry", map[string]any{"edits": map[string]any{"check": "x"}}, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "completed", done.Status)
	all := map[string]any{"approve": "all"}
	requireCode(t, tenant.User.Do(http.MethodPost, path+"/changes/decide", all), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
	require.Equal(t, "applied", decideAll(t, approver, path, all).statuses())
}
