package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// textsOfUsers are the texts of users that can become an argument of a later call of an execution. Each
// brings an execution that waits to its held call, by what the user writes.
func textsOfUsers() map[string]struct {
	steps string
	write func(t *testing.T, by, other *rig.Client, path, value string)
} {
	const pay = `{"id":"pay","type":"verb","verb":"gate:create_thing","args":{"id":`
	ask := func(t *testing.T, c *rig.Client, path, decision string, body any) {
		t.Helper()
		require.Equal(t, http.StatusOK, c.Do(http.MethodPost, approvalAt(t, c, path, "ask")+"/"+decision, body).Status)
	}
	return map[string]struct {
		steps string
		write func(t *testing.T, by, other *rig.Client, path, value string)
	}{
		"the data of a signal": {
			`{"id":"w","type":"wait","event":{"type":"go"}},` + pay + `"${steps.w.output.data.id}"}}`,
			func(t *testing.T, by, _ *rig.Client, path, value string) {
				t.Helper()
				require.Equal(t, http.StatusOK, by.Do(http.MethodPost, path+"/signal", map[string]any{"name": "go", "data": map[string]any{"id": value}}).Status)
			},
		},
		"an edit of an approval step": {
			`{"id":"ask","type":"approval","title":"Go?","payload":{"id":"old"}},` + pay + `"${steps.ask.output.payload.id}"}}`,
			func(t *testing.T, by, _ *rig.Client, path, value string) {
				t.Helper()
				ask(t, by, path, "approve", map[string]any{"edited_args": map[string]any{"id": value}})
			},
		},
		"a response to an approval step": {
			`{"id":"ask","type":"approval","title":"Go?","form":{"type":"object"}},` + pay + `"${steps.ask.output.response.id}"}}`,
			func(t *testing.T, by, _ *rig.Client, path, value string) {
				t.Helper()
				ask(t, by, path, "approve", map[string]any{"response": map[string]any{"id": value}})
			},
		},
		"the reason of a decision": {
			`{"id":"ask","type":"approval","title":"Go?"},` + pay + `"${steps.ask.output.reason}"}}`,
			func(t *testing.T, by, _ *rig.Client, path, value string) {
				t.Helper()
				ask(t, by, path, "approve", map[string]any{"reason": value})
			},
		},
	}
}

// approvalAt returns the path of the approval that a step of the execution waits for.
func approvalAt(t *testing.T, c *rig.Client, path, step string) (approval string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var e struct {
			WaitingFor *struct {
				Step       string `json:"step"`
				ApprovalID string `json:"approval_id"`
			} `json:"waiting_for"`
		}
		c.Do(http.MethodGet, path, nil).Data(t, &e)
		if e.WaitingFor == nil || e.WaitingFor.Step != step || e.WaitingFor.ApprovalID == "" {
			return false
		}
		approval = "/v1/approvals/" + e.WaitingFor.ApprovalID
		return true
	}, arriveLimit, 50*time.Millisecond)
	return approval
}

// A user who writes a text that becomes an argument releases that call neither by their approval nor by a
// grant of theirs. Another user does. The definition of the Map is such a text, too.
func TestWriterOfATextDoesNotReleaseTheCallAlone(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	author, other, by := newAuthor(t, tenant), newApprover(t, tenant), tenant.User
	sent := 0
	for name, c := range textsOfUsers() {
		trigger := publishAs(t, author, name, "["+c.steps+"]")
		for _, granted := range []bool{false, true} {
			var grant struct{ ID string }
			if granted {
				a := by.Do(http.MethodPost, "/v1/grants", map[string]any{
					"verb": "gate:create_thing", "map_id": mapID(trigger), "max_uses": 9, "reason": "r", "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
				})
				require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
				a.Data(t, &grant)
			}
			path := startMap(t, tenant, trigger, map[string]any{})
			c.write(t, by, other, path, ids(1)[0])
			held := approvalAt(t, by, path, "pay")
			require.Len(t, g.all(), sent, name)
			requireCode(t, by.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
			requireCode(t, author.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
			require.Equal(t, http.StatusOK, other.Do(http.MethodPost, held+"/approve", nil).Status, name)
			require.Equal(t, "completed", endOf(t, tenant, path).Status, name)
			sent++
			require.Len(t, g.all(), sent, name)
			if granted {
				require.Equal(t, http.StatusOK, by.Do(http.MethodDelete, "/v1/grants/"+grant.ID, nil).Status)
			}
		}
	}
}

// What is written to a Map that another one waits for is in its output, and so in the calls of the other.
func TestWriterToAMapWithinIsAWriterOfWhatWaitsForIt(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	author, other := newAuthor(t, tenant), newApprover(t, tenant)
	var inner struct{ ID string }
	author.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Within","steps":[{"id":"ask","type":"approval","title":"Go?","form":{"type":"object"}}],"output":{"id":"${steps.ask.output.response.id}"}}`)).Data(t, &inner)
	trigger := publishAs(t, author, "Around", `[{"id":"in","type":"map","map_id":"`+inner.ID+`","wait":true},{"id":"pay","type":"verb","verb":"gate:create_thing","args":{"id":"${steps.in.output.id}"}}]`)
	path := startMap(t, tenant, trigger, map[string]any{})
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, heldNow(t, tenant.User)+"/approve", map[string]any{"response": map[string]any{"id": ids(1)[0]}}).Status)
	held := approvalAt(t, tenant.User, path, "pay")
	requireCode(t, tenant.User.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
	require.Equal(t, http.StatusOK, other.Do(http.MethodPost, held+"/approve", nil).Status)
	require.Equal(t, "completed", endOf(t, tenant, path).Status)
	require.Len(t, g.all(), 1)
}

// Who writes a version of a Map makes the arguments of the Map that waits for its output.
func TestAuthorOfAMapWithinIsAWriterOfWhatWaitsForIt(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	author, within, other := newAuthor(t, tenant), newAuthor(t, tenant), newApprover(t, tenant)
	var inner struct{ ID string }
	within.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Within","steps":[{"id":"n","type":"transform","expr":"1"}],"output":{"id":"`+ids(1)[0]+`"}}`)).Data(t, &inner)
	trigger := publishAs(t, author, "Around", `[{"id":"in","type":"map","map_id":"`+inner.ID+`","wait":true},{"id":"pay","type":"verb","verb":"gate:create_thing","args":{"id":"${steps.in.output.id}"}}]`)
	held := approvalAt(t, tenant.User, startMap(t, tenant, trigger, map[string]any{}), "pay")
	requireCode(t, within.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
	require.Empty(t, g.all())
	require.Equal(t, http.StatusOK, other.Do(http.MethodPost, held+"/approve", nil).Status)
}
