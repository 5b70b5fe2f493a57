package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// What undoes a step is a governed call. One that a policy blocks does not keep the others from being
// made, and one that is held waits for people.
func TestCallsThatUndoAreGoverned(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		list := ids(6)
		trigger := publish(t, tenant, "Undoes what it did", `[
			{"id":"a","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.a}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${trigger_data.undo_a}"}}},
			{"id":"b","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.b}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${trigger_data.undo_b}"}}},
			{"id":"c","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.c}"},"compensate":{"verb":"gate:create_thing","args":{"id":"${trigger_data.undo_c}"}}},
			{"id":"stop","type":"raise","error":{"code":"STOPPED"}}]`)
		about := func(action, id string) map[string]any {
			p := map[string]any{
				"name": action + " " + id, "verbMatchers": []any{map[string]any{"verb": "gate:create_thing"}},
				"conditions": []any{map[string]any{"field": "args.id", "operator": "equals", "value": id}}, "action": map[string]any{"type": action},
			}
			if action == "require_approval" {
				p["approval"] = map[string]any{"self_approval": true}
			}
			return p
		}
		tenant.User.NewPolicy(t, about("require_approval", list[4]))
		tenant.User.NewPolicy(t, about("block", list[5]))
		payload := map[string]any{"a": list[0], "b": list[1], "c": list[2], "undo_a": list[3], "undo_b": list[4], "undo_c": list[5]}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload}, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		var waiting []struct{ ID string }
		rig.Until(t, arriveLimit, "the second call is held", func() bool {
			tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &waiting)
			return len(waiting) == 1
		})
		require.Empty(t, g.of(list[5]), "it is blocked")
		require.Empty(t, g.of(list[4]), "it is held")
		require.Empty(t, g.of(list[3]), "it comes after the held one")
		decide(t, tenant.User, waiting[0].ID, "approve", nil)
		end := ended(t, tenant, path)
		require.Equal(t, "failed", end.Status)
		require.Equal(t, "STOPPED", end.Error.Code)
		require.Len(t, g.of(list[4]), 1)
		require.Len(t, g.of(list[3]), 1)
		require.Empty(t, g.of(list[5]))
		var blocked []struct {
			ExecutionID string `json:"execution_id"`
			Metadata    map[string]string
		}
		tenant.User.Do(http.MethodGet, "/v1/executions?status=blocked", nil).Data(t, &blocked)
		require.Len(t, blocked, 1, "people find the call that was not made")
		require.NotEmpty(t, blocked[0].Metadata["map_id"])
		whole := undoingOf(t, tenant, path)
		require.Equal(t, &undoing{Undone: 2, NotUndone: 1, UnknownSteps: []string{}, Calls: []undoingCall{{
			Path: "/steps/2", Verb: "gate:create_thing", ExecutionID: blocked[0].ExecutionID, Status: "failed", Code: "GOVERNANCE_BLOCKED", Title: whole.title(),
		}}}, whole)
		require.NotEmpty(t, whole.title())
		var events []struct {
			Event        string
			Compensation undoing
		}
		tenant.User.Do(http.MethodGet, path+"/events", nil).Data(t, &events)
		for _, e := range events {
			if e.Event == "map.failed" {
				require.Equal(t, undoing{Undone: 2, NotUndone: 1}, e.Compensation)
				return
			}
		}
		require.Fail(t, "nobody was told that it failed")
	})
}

// undoing is what an execution says about undoing its steps.
type undoing struct {
	Undone    int
	NotUndone int `json:"not_undone"`
	Unknown   int
	Calls     []undoingCall
	// UnknownSteps are the steps whose outcome is unknown.
	UnknownSteps []string `json:"unknown_steps"`
}

type undoingCall struct {
	Path, Verb, Status, Code, Title string
	ExecutionID                     string `json:"execution_id"`
}

// undoingOf returns what the execution says about undoing its steps; nil where it says nothing.
func undoingOf(t *testing.T, tenant *rig.Tenant, path string) *undoing {
	t.Helper()
	var e struct{ Compensation *undoing }
	tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
	return e.Compensation
}

func (u undoing) title() string { return u.Calls[0].Title }

// What is left behind is listed: a call that undoes a step may be refused, may have no answer, and may have
// arguments that cannot be made. A step whose outcome is unknown is not touched.
func TestStepsThatAreNotUndoneAreListed(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Cannot undo", `[
			{"id":"each","type":"foreach","items":[0,1,2,3],"steps":[
				{"id":"a","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.made[index]}"},
				 "compensate":{"verb":"gate:create_thing","args":{"id":"${if index == 0 then trigger_data.undo elif index == 1 then trigger_data.unanswered elif index == 2 then error else 1 end}","mode":"${if index == 1 then \"vanish\" else \"moment\" end}"}}}]},
			{"id":"unknown","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.unknown}","mode":"vanish"}}]`)
		list := ids(7)
		payload := map[string]any{"made": list[:4], "undo": list[4], "unanswered": list[5], "unknown": list[6]}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload}, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		rig.Until(t, arriveLimit, "nobody knows what came of the last step", func() bool {
			return mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK).Status == "waiting"
		})
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/cancel", nil).Status)
		require.Equal(t, "cancelled", ended(t, tenant, path).Status)
		require.Len(t, g.of(list[4]), 1, "one was undone")
		got := undoingOf(t, tenant, path)
		require.Len(t, got.Calls, 3)
		refused, unanswered := got.Calls[0].ExecutionID, got.Calls[2].ExecutionID
		for i := range got.Calls {
			require.NotEmpty(t, got.Calls[i].Title)
			got.Calls[i].Title = ""
		}
		const each = "/steps/0/steps/0@"
		require.Equal(t, &undoing{Undone: 1, NotUndone: 3, Unknown: 1, UnknownSteps: []string{"/steps/1"}, Calls: []undoingCall{
			{Path: each + "3", Verb: "gate:create_thing", Status: "failed", Code: "INVALID_ARGS", ExecutionID: refused},
			{Path: each + "2", Verb: "gate:create_thing", Status: "failed", Code: "EXPRESSION_ERROR"},
			{Path: each + "1", Verb: "gate:create_thing", Status: "outcome_unknown", Code: "OUTCOME_UNKNOWN", ExecutionID: unanswered},
		}}, got)
		for id, want := range map[string]string{refused: "failed", unanswered: "outcome_unknown"} {
			var call struct{ Status string }
			tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil).Data(t, &call)
			require.Equal(t, want, call.Status)
		}
	})
}

// undoesByDeleting makes two things, and deletes them when it fails. Its calls are told apart by the ids.
const undoesByDeleting = `[
	{"id":"a","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.a}"},"compensate":{"verb":"gate:delete_thing","args":{"id":"${trigger_data.undo_a}"}}},
	{"id":"b","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.b}"},"compensate":{"verb":"gate:delete_thing","args":{"id":"${trigger_data.undo_b}"}}},
	{"id":"stop","type":"raise","error":{"code":"STOPPED"}}]`

// undoingThatWaits is what an execution shows while a call that undoes a step waits.
type undoingThatWaits struct {
	Status     string
	WaitingFor *struct {
		For, Step  string
		UndoneBy   string `json:"undone_by"`
		ApprovalID string `json:"approval_id"`
	} `json:"waiting_for"`
	Steps []struct{ ID, Status string }
}

// awaitUndoing waits until the call that undoes the step waits.
func awaitUndoing(t *testing.T, tenant *rig.Tenant, path, status, step string) (e undoingThatWaits) {
	t.Helper()
	rig.Until(t, arriveLimit, path+" is "+status+" to undo "+step, func() bool {
		e = undoingThatWaits{}
		tenant.User.Do(http.MethodGet, path, nil).Data(t, &e)
		return e.Status == status && e.WaitingFor != nil && e.WaitingFor.Step == step
	})
	require.NotEmpty(t, e.WaitingFor.UndoneBy)
	for _, s := range e.Steps {
		if s.ID == step {
			require.Equal(t, "completed", s.Status, "it is not undone yet")
		}
	}
	return e
}

// While people are asked about a call that undoes a step, the execution says so, and which approval it is.
// After each decision the undoing goes on.
func TestUndoingThatIsHeldShowsThatPeopleAreAsked(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		other, _ := tenant.User.NewUser(t, rig.Address(), "approver")
		editor, _ := tenant.User.NewUser(t, rig.Address(), "approver")
		tenant.User.NewPolicy(t, rig.RequireApproval("asks", "gate:delete_thing", nil))
		list := ids(5)
		path := startMap(t, tenant, publish(t, tenant, "Asks before it undoes", undoesByDeleting), map[string]any{"a": list[0], "b": list[1], "undo_a": list[2], "undo_b": list[3]})
		first := awaitAsking(t, tenant, path)
		e := awaitUndoing(t, tenant, path, "pending_approval", "b")
		require.Equal(t, "approval", e.WaitingFor.For)
		require.Equal(t, first, e.WaitingFor.ApprovalID)
		var asked struct {
			ExecutionID string `json:"execution_id"`
			Verb        string
			Args        struct{ ID string }
		}
		tenant.User.Do(http.MethodGet, "/v1/approvals/"+first, nil).Data(t, &asked)
		require.Equal(t, e.WaitingFor.UndoneBy, asked.ExecutionID)
		require.Equal(t, "gate:delete_thing", asked.Verb)
		require.Equal(t, list[3], asked.Args.ID)
		require.Equal(t, "pending_approval", executionOf(t, tenant.User, e.WaitingFor.UndoneBy).Status)
		listed := tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&status=pending_approval", nil)
		require.Contains(t, string(listed.Body), strings.TrimPrefix(path, "/v1/executions/"))

		for _, what := range []string{"cancel", "pause", "resume"} {
			require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/"+what, nil).Status)
		}
		requireCode(t, tenant.User.Do(http.MethodPost, path+"/retry", nil), http.StatusConflict, "CONFLICT")
		edited := decide(t, editor, first, "approve", map[string]any{"edited_args": map[string]any{"id": list[4]}})
		require.Equal(t, "pending", edited.Status)
		require.Equal(t, edited.ID, awaitUndoing(t, tenant, path, "pending_approval", "b").WaitingFor.ApprovalID, "it names the approval that people are asked about now")
		require.Empty(t, g.of(list[3]))
		decide(t, other, edited.ID, "approve", nil)

		second := awaitUndoing(t, tenant, path, "pending_approval", "a")
		require.Len(t, g.of(list[4]), 1, "people have edited the call")
		require.NotEqual(t, e.WaitingFor.UndoneBy, second.WaitingFor.UndoneBy)
		decide(t, tenant.User, second.WaitingFor.ApprovalID, "reject", map[string]any{"reason": "keep it"})

		end := ended(t, tenant, path)
		require.Equal(t, "failed", end.Status)
		require.Equal(t, "STOPPED", end.Error.Code)
		require.Equal(t, "approved", end.GovernanceStatus)
		require.Nil(t, end.WaitingFor)
		require.Empty(t, g.of(list[2]))
		whole := undoingOf(t, tenant, path)
		require.Equal(t, 1, whole.Undone)
		require.Len(t, whole.Calls, 1)
		require.Equal(t, second.WaitingFor.UndoneBy, whole.Calls[0].ExecutionID)
		requireCode(t, tenant.User.Do(http.MethodPost, path+"/retry", nil), http.StatusConflict, "CONFLICT")

		var told []struct {
			Step     string
			UndoneBy string `json:"undone_by"`
		}
		tenant.User.Do(http.MethodGet, "/v1/events?type=map.waiting&execution_id="+strings.TrimPrefix(path, "/v1/executions/"), nil).Data(t, &told)
		require.Len(t, told, 2)
		require.ElementsMatch(t, []string{"b " + e.WaitingFor.UndoneBy, "a " + second.WaitingFor.UndoneBy}, []string{told[0].Step + " " + told[0].UndoneBy, told[1].Step + " " + told[1].UndoneBy})
	})
}

// Where nobody decides in time, the next step is undone. The execution says that it is cancelled, and no
// longer what it waited for.
func TestUndoingThatIsHeldGoesOnWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		tenant.User.NewPolicy(t, rig.RequireApproval("asks", "gate:delete_thing", map[string]any{"timeout": 20, "self_approval": true}))
		list := ids(4)
		steps := strings.Replace(undoesByDeleting, `{"id":"stop","type":"raise","error":{"code":"STOPPED"}}`, `{"id":"w","type":"wait","for":"1h"}`, 1)
		path := startMap(t, tenant, publish(t, tenant, "Waits", steps), map[string]any{"a": list[0], "b": list[1], "undo_a": list[2], "undo_b": list[3]})
		waitsIn(t, tenant, path, "w")
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/cancel", nil).Status)
		awaitUndoing(t, tenant, path, "pending_approval", "b")
		awaitUndoing(t, tenant, path, "pending_approval", "a")
		end := ended(t, tenant, path)
		require.Equal(t, "cancelled", end.Status)
		require.Nil(t, end.WaitingFor)
		whole := undoingOf(t, tenant, path)
		require.Equal(t, 2, whole.NotUndone)
		require.Empty(t, g.of(list[2]))
		require.Empty(t, g.of(list[3]))
	})
}

// A kill switch pauses the undoing. After the lift it goes on.
func TestUndoingThatIsSwitchedOffIsPaused(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		held(t, tenant, "gate:delete_thing")
		list := ids(4)
		var set struct{ ID string }
		tenant.User.Do(http.MethodPost, "/v1/kill-switch", map[string]any{"scope": "verb", "target": "gate:delete_thing", "reason": "test"}).Data(t, &set)
		path := startMap(t, tenant, publish(t, tenant, "Is switched off", undoesByDeleting), map[string]any{"a": list[0], "b": list[1], "undo_a": list[2], "undo_b": list[3]})
		require.Equal(t, "kill_switch", awaitUndoing(t, tenant, path, "paused", "b").WaitingFor.For)
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/kill-switch/"+set.ID, nil).Status)
		for _, step := range []string{"b", "a"} {
			decide(t, tenant.User, awaitUndoing(t, tenant, path, "pending_approval", step).WaitingFor.ApprovalID, "approve", nil)
		}
		require.Equal(t, "failed", ended(t, tenant, path).Status)
		require.Equal(t, 2, undoingOf(t, tenant, path).Undone)
		require.Len(t, g.of(list[2]), 1)
		require.Len(t, g.of(list[3]), 1)
	})
}
