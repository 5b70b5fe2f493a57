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

// asking is what tests read of an execution that waits for people.
type asking struct {
	Status           string
	GovernanceStatus string `json:"governance_status"`
	WaitingFor       *struct {
		For, Step  string
		ApprovalID string `json:"approval_id"`
	} `json:"waiting_for"`
	Output json.RawMessage
	Error  *struct{ Code, Instance string }
}

// asks triggers a Map and returns its execution when its step waits for people.
func asks(t *testing.T, tenant *rig.Tenant, steps string, payload any) (path, approvalID string) {
	t.Helper()
	trigger := publish(t, tenant, "Asks people", steps)
	one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload}, "Prefer: wait=0"), http.StatusAccepted)
	path = "/v1/executions/" + one.ExecutionID
	return path, awaitAsking(t, tenant, path)
}

func awaitAsking(t *testing.T, tenant *rig.Tenant, path string) (approvalID string) {
	t.Helper()
	rig.Until(t, arriveLimit, "the execution asks people", func() bool {
		e := askingOf(t, tenant, path)
		if e.Status != "pending_approval" || e.WaitingFor == nil {
			return false
		}
		require.Equal(t, "pending", e.GovernanceStatus)
		require.Equal(t, "approval", e.WaitingFor.For)
		approvalID = e.WaitingFor.ApprovalID
		return approvalID != ""
	})
	return approvalID
}

func askingOf(t *testing.T, tenant *rig.Tenant, path string, headers ...string) (e asking) {
	t.Helper()
	a := tenant.User.Do(http.MethodGet, path, nil, headers...)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &e)
	return e
}

func ended(t *testing.T, tenant *rig.Tenant, path string) asking {
	t.Helper()
	return askingOf(t, tenant, path, "Prefer: wait=60")
}

// decidedApproval is what tests read of an approval.
type decidedApproval struct {
	ID, Kind, Status, Reason string
	Verb, Step               *string
	Args                     json.RawMessage
	SupersededBy             *string `json:"superseded_by"`
	EditedFrom               *string `json:"edited_from"`
	Approvals                struct{ Have, Need int }
}

func decide(t *testing.T, c *rig.Client, id, decision string, body any) (a decidedApproval) {
	t.Helper()
	got := c.Decide(id, decision, body)
	require.Equal(t, http.StatusOK, got.Status, "%s", got.Body)
	got.Data(t, &a)
	return a
}

// A caller who does not wait learns from the answer which approval that is.
func TestTriggerThatWaitsForPeopleNamesTheirApproval(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		trigger := publish(t, tenant, "Asks people", `[{"id":"ask","type":"approval","title":"Go?","payload":{"n":1}}]`)
		body := map[string]any{"session_id": ids(1)[0]}
		started := tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=0")
		approval := awaitAsking(t, tenant, "/v1/executions/"+mapExecutionOf(t, started, http.StatusAccepted).ExecutionID)
		a := tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=0")
		require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
		var e asking
		a.Data(t, &e)
		require.Equal(t, "pending_approval", e.Status)
		require.NotNil(t, e.WaitingFor)
		require.Equal(t, approval, e.WaitingFor.ApprovalID)
	})
}

func TestApprovalStepGoesOnAsPeopleDecide(t *testing.T) {
	t.Parallel()
	const question = `"id":"ask","type":"approval","title":"Refund ${trigger_data.amount}?","payload":{"amount":"${trigger_data.amount}","password":"hunter2-canary"}`
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		for name, c := range map[string]struct {
			more, decision string
			body           any
			status         string
			output         string
			code           string
			governance     string
		}{
			"approved": {``, "approve", map[string]any{"reason": "fine"}, "completed", `{"decision":"approve","reason":"fine","response":null}`, "", "approved"},
			"edited": {
				``, "approve",
				map[string]any{"edited_args": map[string]any{"amount": 7}},
				"completed",
				`{"decision":"edit","reason":null,"response":null,"payload":{"amount":7,"password":"hunter2-canary"}}`, "", "approved",
			},
			"answered": {
				`,"form":{"type":"object","required":["days"],"properties":{"days":{"type":"integer"}}}`, "approve",
				map[string]any{"response": map[string]any{"days": 3}},
				"completed", `{"decision":"respond","reason":null,"response":{"days":3}}`, "", "approved",
			},
			"rejected": {``, "reject", map[string]any{"reason": "too much"}, "failed", ``, "APPROVAL_REJECTED", "rejected"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				// The output of the step leaves with the trigger's answer: others see it masked.
				trigger := publish(t, tenant, "Asks: "+name, `[{`+question+c.more+`}]`)
				session := map[string]any{"session_id": ids(1)[0], "payload": map[string]any{"amount": 5}}
				one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, session, "Prefer: wait=0"), http.StatusAccepted)
				path := "/v1/executions/" + one.ExecutionID
				id := awaitAsking(t, tenant, path)

				listed := tenant.User.Do(http.MethodGet, "/v1/approvals?mine=true&kind=step&execution_id="+one.ExecutionID, nil)
				require.Contains(t, string(listed.Body), id)
				shown := tenant.User.Do(http.MethodGet, "/v1/approvals/"+id, nil)
				require.NotContains(t, string(shown.Body), "canary")
				var a decidedApproval
				shown.Data(t, &a)
				require.Equal(t, "step", a.Kind)
				require.Equal(t, "Refund 5?", a.Reason)
				require.Equal(t, "/steps/0", *a.Step)
				require.Nil(t, a.Verb)
				require.JSONEq(t, `{"amount":5,"password":"[masked]"}`, string(a.Args))

				decide(t, tenant.User, id, c.decision, c.body)
				again := tenant.User.Decide(id, c.decision, c.body)
				require.Equal(t, "APPROVAL_NOT_PENDING", again.Code(t))
				e := ended(t, tenant, path)
				require.Equal(t, c.status, e.Status)
				require.Equal(t, c.governance, e.GovernanceStatus)
				repeat := tenant.Runtime.Do(http.MethodPost, trigger, session)
				if c.code != "" {
					require.Equal(t, c.code, e.Error.Code)
					require.Equal(t, "/steps/0", e.Error.Instance)
					require.Equal(t, "MAP_FAILED", repeat.Code(t))
					return
				}
				var out map[string]any
				require.NoError(t, json.Unmarshal(mapExecutionOf(t, repeat, http.StatusOK).Output, &out))
				require.True(t, strings.HasPrefix(out["by"].(string), "user:"), "%v", out["by"])
				delete(out, "by")
				got, err := json.Marshal(out)
				require.NoError(t, err)
				require.JSONEq(t, c.output, string(got))
			})
		}
	})
}

func TestApprovalStepNeedsItsQuorum(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		second, _ := tenant.User.NewUser(t, rig.Address(), "approver")
		member, _ := tenant.User.NewUser(t, rig.Address(), "member")
		const steps = `[{"id":"ask","type":"approval","title":"Go?","required":2,"payload":{"n":1}}]`
		path, id := asks(t, tenant, steps, map[string]any{})
		require.Equal(t, "APPROVER_NOT_ELIGIBLE", member.Decide(id, "approve", nil).Code(t))
		require.Equal(t, "pending", decide(t, tenant.User, id, "approve", nil).Status)
		require.Equal(t, "CONFLICT", tenant.User.Decide(id, "approve", nil).Code(t))
		require.Equal(t, "pending_approval", askingOf(t, tenant, path).Status)
		require.Equal(t, "approved", decide(t, second, id, "approve", nil).Status)
		require.Equal(t, "completed", ended(t, tenant, path).Status)

		// An edit asks again: the vote for what was there before does not count for it.
		path, id = asks(t, tenant, steps, map[string]any{})
		decide(t, second, id, "approve", nil)
		require.Equal(t, "VALIDATION_ERROR", tenant.User.Decide(id, "approve", map[string]any{"edited_args": []int{2}}).Code(t))
		edited := decide(t, tenant.User, id, "approve", map[string]any{"edited_args": map[string]any{"n": 2}})
		require.Equal(t, id, *edited.EditedFrom)
		require.Equal(t, "pending", edited.Status)
		require.Equal(t, 1, edited.Approvals.Have)
		require.Equal(t, edited.ID, askingOf(t, tenant, path).WaitingFor.ApprovalID)
		require.Equal(t, "APPROVAL_NOT_PENDING", second.Decide(id, "approve", nil).Code(t))
		require.Equal(t, "approved", decide(t, second, edited.ID, "approve", nil).Status)
		e := ended(t, tenant, path)
		require.Equal(t, "completed", e.Status)
		require.Contains(t, string(e.Output), `"payload":{"n":2}`)
	})
}

func TestApprovalStepEndsWithItsTime(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		for on, c := range map[string]struct{ status, code string }{
			"reject":   {"failed", "APPROVAL_REJECTED"},
			"fail":     {"failed", "APPROVAL_EXPIRED"},
			"continue": {"completed", ""},
		} {
			path, id := asks(t, tenant, `[{"id":"ask","type":"approval","title":"Go?","timeout":"2s","on_timeout":"`+on+`"}]`, map[string]any{})
			e := ended(t, tenant, path)
			require.Equal(t, c.status, e.Status, on)
			if c.code == "" {
				require.Contains(t, string(e.Output), `"decision":"expired"`)
			} else {
				require.Equal(t, c.code, e.Error.Code, on)
			}
			var a decidedApproval
			tenant.User.Do(http.MethodGet, "/v1/approvals/"+id, nil).Data(t, &a)
			require.Equal(t, "expired", a.Status)
			require.Equal(t, "APPROVAL_NOT_PENDING", tenant.User.Decide(id, "approve", nil).Code(t))
		}
	})
}

func TestCancelledMapClosesItsApprovals(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		path, id := asks(t, tenant, `[{"id":"both","type":"parallel","branches":[
			{"id":"one","steps":[{"id":"a","type":"approval","title":"One?"}]},
			{"id":"two","steps":[{"id":"b","type":"approval","title":"Two?"}]}]}]`, map[string]any{})
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		require.Equal(t, "cancelled", ended(t, tenant, path).Status)
		require.Equal(t, "APPROVAL_NOT_PENDING", tenant.User.Decide(id, "approve", nil).Code(t))
		var all []decidedApproval
		tenant.User.Do(http.MethodGet, "/v1/approvals?kind=step", nil).Data(t, &all)
		require.Len(t, all, 2)
		for _, a := range all {
			require.Equal(t, "cancelled", a.Status)
		}
	})
}

func TestEscalateStepTellsAndWaits(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		trigger := publish(t, tenant, "Escalates", `[
			{"id":"told","type":"escalate","reason":"Order ${trigger_data.id} is odd."},
			{"id":"held","type":"escalate","reason":"Look at it.","wait":true}]`)
		body := map[string]any{"payload": map[string]any{"id": 7}}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		rig.Until(t, arriveLimit, "the execution is escalated", func() bool {
			e := askingOf(t, tenant, path)
			return e.Status == "escalated" && e.WaitingFor != nil && e.WaitingFor.For == "signal"
		})
		var events []struct {
			Kind, Reason, Step string
			Waits              bool
		}
		rig.Until(t, 20*time.Second, "the events are readable", func() bool {
			tenant.User.Do(http.MethodGet, "/v1/events?type=escalation.created&execution_id="+one.ExecutionID, nil).Data(t, &events)
			return len(events) == 2
		})
		require.Equal(t, "Look at it.", events[0].Reason)
		require.True(t, events[0].Waits)
		require.Equal(t, "Order 7 is odd.", events[1].Reason)
		require.Equal(t, "/steps/0", events[1].Step)
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		require.Equal(t, "cancelled", ended(t, tenant, path).Status)

		path = startMap(t, tenant, trigger, map[string]any{"id": 8})
		waitsIn(t, tenant, path, "held")
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "handled", map[string]any{"by": "Ada"}).Status)
		done := endOf(t, tenant, path)
		require.Equal(t, "completed", done.Status)
		require.JSONEq(t, `{"by":"Ada"}`, string(done.Output))
	})
}

func TestDryRunOfAMapListsItsChanges(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Makes two things", `[
			{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"${trigger_data.id}"}},
			{"id":"one","type":"verb","verb":"gate:create_thing","args":{"id":"one"},"expect":{"type":"object","properties":{"id":{"type":"string"}}}},
			{"id":"two","type":"verb","verb":"gate:create_thing","args":{"id":"${steps.one.output.id}"},"mock":{"id":"mocked"}},
			{"id":"asks","type":"approval","title":"Go?"}]`)
		body := map[string]any{"payload": map[string]any{"id": ids(1)[0]}, "dryRun": true}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", one.Status)
		require.Len(t, g.all(), 1, "only the read was sent")

		var found struct {
			Changes []struct {
				ID, Verb, Step string
				Number         int
				Args, Before   json.RawMessage
				DependsOn      []string `json:"depends_on"`
			}
		}
		tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+one.ExecutionID+"/changes", nil).Data(t, &found)
		require.Len(t, found.Changes, 2)
		for i, want := range []struct{ step, args string }{{"/steps/1", `{"id":"one"}`}, {"/steps/2", `{"id":"invented"}`}} {
			require.Equal(t, want.step, found.Changes[i].Step)
			require.Equal(t, i+1, found.Changes[i].Number)
			require.Equal(t, "gate:create_thing", found.Changes[i].Verb)
			require.JSONEq(t, want.args, string(found.Changes[i].Args))
			require.Equal(t, "null", string(found.Changes[i].Before))
		}
		require.Empty(t, found.Changes[0].DependsOn)
		require.Equal(t, []string{found.Changes[0].ID}, found.Changes[1].DependsOn)

		var asked []decidedApproval
		tenant.User.Do(http.MethodGet, "/v1/approvals", nil).Data(t, &asked)
		require.Len(t, asked, 1, "people are asked about all changes together")
		require.Equal(t, "changes", asked[0].Kind)
	})
}
