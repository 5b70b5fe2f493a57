package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// textOfUser is a way in which the user of a tenant writes a text of an execution.
type textOfUser struct {
	steps string
	write func(t *testing.T, tenant *rig.Tenant, other *rig.Client, path, value string)
}

// textsOfUsers are the texts of users that can become an argument of a later call of an execution. Each
// brings an execution that waits to its held call, by what the user writes.
func textsOfUsers() map[string]textOfUser {
	const pay = `{"id":"pay","type":"verb","verb":"gate:create_thing","args":{"id":`
	const first = `{"id":"made","type":"verb","verb":"gate:delete_thing","args":{"id":"first"`
	answer := func(t *testing.T, c *rig.Client, path, step, decision string, body any) {
		t.Helper()
		a := c.Do(http.MethodPost, approvalAt(t, c, path, step)+"/"+decision, body)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}
	ask := func(t *testing.T, c *rig.Client, path, decision string, body any) {
		t.Helper()
		answer(t, c, path, "ask", decision, body)
	}
	return map[string]textOfUser{
		"the data of a signal": {
			`{"id":"w","type":"wait","event":{"type":"go"}},` + pay + `"${steps.w.output.data.id}"}}`,
			func(t *testing.T, tenant *rig.Tenant, _ *rig.Client, path, value string) {
				t.Helper()
				require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/signal", map[string]any{"name": "go", "data": map[string]any{"id": value}}).Status)
			},
		},
		"an edit of an approval step": {
			`{"id":"ask","type":"approval","title":"Go?","payload":{"id":"old"}},` + pay + `"${steps.ask.output.payload.id}"}}`,
			func(t *testing.T, tenant *rig.Tenant, _ *rig.Client, path, value string) {
				t.Helper()
				ask(t, tenant.User, path, "approve", map[string]any{"edited_args": map[string]any{"id": value}})
			},
		},
		"a response to an approval step": {
			`{"id":"ask","type":"approval","title":"Go?","form":{"type":"object"}},` + pay + `"${steps.ask.output.response.id}"}}`,
			func(t *testing.T, tenant *rig.Tenant, _ *rig.Client, path, value string) {
				t.Helper()
				ask(t, tenant.User, path, "approve", map[string]any{"response": map[string]any{"id": value}})
			},
		},
		"the reason of a decision": {
			`{"id":"ask","type":"approval","title":"Go?"},` + pay + `"${steps.ask.output.reason}"}}`,
			func(t *testing.T, tenant *rig.Tenant, _ *rig.Client, path, value string) {
				t.Helper()
				ask(t, tenant.User, path, "approve", map[string]any{"reason": value})
			},
		},
		"the reason of a rejected call": {
			first + `},"on_error":"continue"},` + pay + `"${steps.made.error.detail | match(\"[0-9a-f-]{36}-0\").string}"}}`,
			func(t *testing.T, tenant *rig.Tenant, _ *rig.Client, path, value string) {
				t.Helper()
				answer(t, tenant.User, path, "made", "reject", map[string]any{"reason": value})
			},
		},
		"an edit of a held call": {
			first + `}},` + pay + `"${steps.made.output.id}"}}`,
			func(t *testing.T, tenant *rig.Tenant, other *rig.Client, path, value string) {
				t.Helper()
				old := approvalAt(t, tenant.User, path, "made")
				require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, old+"/approve", map[string]any{"edited_args": map[string]any{"id": value}}).Status)
				rig.Until(t, arriveLimit, "the edited call is held", func() bool { return approvalAt(t, tenant.User, path, "made") != old })
				answer(t, other, path, "made", "approve", nil)
			},
		},
		"the result of a call whose outcome was unknown": {
			first + `,"mode":"vanish"}},` + pay + `"${steps.made.output.id}"}}`,
			func(t *testing.T, tenant *rig.Tenant, other *rig.Client, path, value string) {
				t.Helper()
				answer(t, other, path, "made", "approve", nil)
				call := awaitUnknown(t, tenant, path, 1)
				a := tenant.User.Do(http.MethodPost, "/v1/executions/"+call+"/resolve", map[string]any{"outcome": "executed", "result": map[string]any{"id": value}, "reason": "seen"})
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			},
		},
		"an answer to a manager": {
			`{"id":"work","type":"agent","agent_id":"MANAGED","goal":"Name the bush"},` + pay + `"${trigger_data.id}","mode":"${steps.work.output}"}}`,
			func(t *testing.T, tenant *rig.Tenant, _ *rig.Client, path, _ string) {
				t.Helper()
				rig.Until(t, arriveLimit, "the manager asks", func() bool {
					e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK)
					return e.WaitingFor != nil && e.WaitingFor.For == "input"
				})
				require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/signal", map[string]any{"name": "input", "data": map[string]any{"name": "box"}}).Status)
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
	tenant.User.NewPolicy(t, rig.Policy("hold the first", "require_approval", "gate:delete_thing", nil))
	author, other, by := newAuthor(t, tenant), newApprover(t, tenant), tenant.User
	managed := overseen(t, tenant)
	for name, c := range textsOfUsers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trigger := publishAs(t, author, name, "["+strings.ReplaceAll(c.steps, "MANAGED", managed)+"]")
			for _, granted := range []bool{false, true} {
				if granted {
					a := by.Do(http.MethodPost, "/v1/grants", map[string]any{
						"verb": "gate:create_thing", "map_id": mapID(trigger), "max_uses": 9, "reason": "r", "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
					})
					require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
				}
				value := ids(1)[0]
				path := startMap(t, tenant, trigger, map[string]any{"id": value})
				c.write(t, tenant, other, path, value)
				held, before := approvalAt(t, by, path, "pay"), len(g.of(value))
				requireCode(t, by.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
				requireCode(t, author.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
				require.Equal(t, http.StatusOK, other.Do(http.MethodPost, held+"/approve", nil).Status)
				require.Equal(t, "completed", endOf(t, tenant, path).Status)
				require.Len(t, g.of(value), before+1)
			}
		})
	}
}

// persons are the answers of the scripted model to sessions in which a person has named a fruit.
var persons = []string{
	`{"purpose":"reply","contains":["what the person said","pending_approval"],"text":"Another person looks at it."}`,
	`{"purpose":"reply","contains":["Order what the person said","Take the apricot"],` + toolCalls(toolCall("1", "start_order_things", `{"id":"apricot"}`)) + `}`,
	`{"purpose":"reply","contains":["Make what the person said","Take the apricot"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"apricot"}`)) + `}`,
}

// What a person replies in a session is read by its agent after the hand-back. So they are a writer of its
// later calls, and of those of the Maps that it starts.
func TestWhoRepliesInASessionDoesNotReleaseItsCallsAlone(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	tenant.User.NewPolicy(t, rig.Policy("hold", "require_approval", "gate:create_thing", nil))
	person, other := newApprover(t, tenant), newApprover(t, tenant)
	message, key, _ := starter(t, tenant, orderMap)
	for i, text := range []string{"Order what the person said", "Make what the person said"} {
		session := sessionsOf(message) + "/" + text[:4]
		saidOf(t, key.Do(http.MethodPost, message, write("Hello", text[:4])), http.StatusOK)
		standing(t, person.Do(http.MethodPost, session+"/takeover", nil))
		standing(t, person.Do(http.MethodPost, session+"/reply", map[string]any{"message": "Take the apricot."}))
		standing(t, person.Do(http.MethodPost, session+"/handback", nil))
		waits := saidOf(t, key.Do(http.MethodPost, message, write(text, text[:4])), http.StatusOK)
		require.Equal(t, "pending_approval", waits.Status, text)
		held := heldNow(t, other)
		requireCode(t, person.Do(http.MethodPost, held+"/approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
		require.Equal(t, http.StatusOK, other.Do(http.MethodPost, held+"/approve", nil).Status, text)
		rig.Until(t, arriveLimit, "the call is made", func() bool { return len(g.of("apricot")) == i+1 })
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
