package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mapExecution is what tests read of an execution of a Map, and of the answer to a trigger.
type mapExecution struct {
	ExecutionID     string `json:"execution_id"`
	Status          string `json:"status"`
	ActionsExecuted int    `json:"actions_executed"`
	FenceStatus     string `json:"fence_status"`
	PayloadMatch    *bool  `json:"payload_match"`
	Message         string
	WorkflowID      string `json:"workflow_id"`
	Attempt         int
	Idempotent      bool
	Output          json.RawMessage
	Error           *struct{ Code, Instance, Detail string }
	TokensUsed      int64                 `json:"tokens_used"`
	WaitingFor      *struct{ For string } `json:"waiting_for"`
	Steps           []struct {
		ID, Path, Type, Status string
		Attempts               int
		Error                  *struct{ Code, Detail string }
		ExecutionID            *string     `json:"execution_id"`
		ModelCalls             []modelCall `json:"model_calls"`
		BeganAt                time.Time   `json:"began_at"`
		EndedAt                *time.Time  `json:"ended_at"`
	}
}

// publish creates a Map with the steps, publishes it and returns the path of its triggers.
func publish(t *testing.T, tenant *rig.Tenant, name, steps string) string {
	t.Helper()
	return publishAs(t, tenant.User, name, steps)
}

// newAuthor is an admin who publishes Maps, so that the owner approves calls that others have written.
func newAuthor(t *testing.T, tenant *rig.Tenant) *rig.Client {
	t.Helper()
	author, _ := tenant.User.NewUser(t, rig.Address(), "admin")
	return author
}

func publishAs(t *testing.T, author *rig.Client, name, steps string) string {
	t.Helper()
	a := author.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"`+name+`","steps":`+steps+`}`))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	return a.Header.Get("Location") + "/trigger"
}

func mapExecutionOf(t *testing.T, a rig.Answer, status int) mapExecution {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, status, a.Status, "%s", a.Body)
	var e mapExecution
	a.Data(t, &e)
	return e
}

// executionsOf returns the executions of the audit records with the action, once there are n.
func executionsOf(t *testing.T, tenant *rig.Tenant, action string, n int) []string {
	t.Helper()
	var records []struct {
		ExecutionID string `json:"execution_id"`
	}
	require.Eventually(t, func() bool {
		tenant.User.Do(http.MethodGet, "/v1/audit?action="+action, nil).Data(t, &records)
		return len(records) >= n
	}, 30*time.Second, 20*time.Millisecond)
	var ids []string
	for _, r := range records {
		ids = append(ids, r.ExecutionID)
	}
	return ids
}

func TestMapRunsOnceForOneSession(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Makes a thing and looks at others", `[
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}},
			{"id":"sort","type":"switch","cases":[
				{"when":"${steps.made.output.hit == 2}","steps":[{"id":"again","type":"verb","verb":"gate:get_thing","args":{"id":"never"}}]},
				{"when":"${steps.made.output.hit == 1}","steps":[{"id":"once","type":"transform","expr":"first"}]}]},
			{"id":"look","type":"foreach","items":"${trigger_data.others}","steps":[
				{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"${item}"}}]}]`)
		list := ids(3)
		body := map[string]any{"session_id": list[0], "payload": map[string]any{"id": list[0], "others": list[1:]}}

		first := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "completed", first.Status)
		require.Equal(t, "executed", first.FenceStatus)
		require.Equal(t, 3, first.ActionsExecuted)
		require.JSONEq(t, `[{"id":"`+list[1]+`","hit":1},{"id":"`+list[2]+`","hit":1}]`, string(first.Output))

		second := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "cached", second.FenceStatus)
		require.Equal(t, first.ExecutionID, second.ExecutionID)
		require.JSONEq(t, string(first.Output), string(second.Output))
		require.Nil(t, first.PayloadMatch)
		require.True(t, *second.PayloadMatch)
		require.Len(t, g.all(), 3)
		for _, id := range list {
			require.Len(t, g.of(id), 1)
		}
		require.Equal(t, []string{first.ExecutionID}, executionsOf(t, tenant, "map.triggered", 1))
		require.Equal(t, []string{first.ExecutionID}, executionsOf(t, tenant, "map.repeated", 1))

		e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+first.ExecutionID, nil), http.StatusOK)
		require.Equal(t, "completed", e.Status)
		types := map[string]int{}
		for _, step := range e.Steps {
			require.Equal(t, "completed", step.Status, "%s", step.Path)
			types[step.Type]++
			if step.Type == "verb" {
				require.NotNil(t, step.ExecutionID, "%s", step.Path)
				require.Equal(t, "executed", executionOf(t, tenant.Runtime, *step.ExecutionID).Status)
			}
		}
		require.Equal(t, map[string]int{"verb": 3, "switch": 1, "transform": 1, "foreach": 1}, types)
	})
}

func TestMapFailsWithTheErrorOfItsStep(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Deletes a thing", `[
			{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"seen"}},
			{"id":"gone","type":"verb","verb":"gate:delete_thing","args":{"id":"gone"}},
			{"id":"never","type":"verb","verb":"gate:get_thing","args":{"id":"never"}}]`)
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60")
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
		refused := a.Envelope(t).Error
		require.Equal(t, "MAP_FAILED", refused.Code)
		var details []struct{ Path, Rule string }
		require.NoError(t, json.Unmarshal(refused.Details, &details))
		require.Len(t, details, 1)
		require.Equal(t, "/steps/1", details[0].Path)
		require.Equal(t, "GOVERNANCE_BLOCKED", details[0].Rule)

		e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+refused.ExecutionID, nil), http.StatusOK)
		require.Equal(t, "failed", e.Status)
		require.Equal(t, "GOVERNANCE_BLOCKED", e.Error.Code)
		require.Len(t, e.Steps, 2)
		require.Equal(t, []string{"completed", "failed"}, []string{e.Steps[0].Status, e.Steps[1].Status})
		require.Len(t, g.all(), 1)
	})
}

// A call that is refused before its claim carries what the steps before it have done.
// The definition says nothing about what an expression makes. Its step does.
func TestExpressionThatMakesNoObjectFailsItsStep(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, sharedDev().For(t))
	inner := mapID(publish(t, tenant, "Takes an object", `[{"id":"in","type":"transform","expr":1}]`))
	for name, c := range map[string]struct{ step, code string }{
		"arguments": {`"type":"verb","verb":"gate:create_thing","args":"${trigger_data.x}"`, "INVALID_ARGS"},
		"payload":   {`"type":"map","map_id":"` + inner + `","payload":"${trigger_data.x}"`, "INVALID_ARGS"},
		"event":     {`"type":"emit","event":"custom.made","data":"${trigger_data.x}"`, "EXPRESSION_RESULT"},
		"question":  {`"type":"approval","title":"Go?","payload":"${trigger_data.x}"`, "EXPRESSION_RESULT"},
		"items":     {`"type":"foreach","items":"${{a: trigger_data.x}}","steps":[]`, "EXPRESSION_RESULT"},
		"wait":      {`"type":"wait","for":"${trigger_data.x}"`, "EXPRESSION_RESULT"},
	} {
		trigger := publish(t, tenant, "Makes no object: "+name, `[{"id":"s",`+c.step+`}]`)
		for _, x := range []any{5, "text", []int{1}} {
			a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"x": x}}, "Prefer: wait=60")
			e := requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
			require.Contains(t, string(e.Error.Details), c.code, "%s: %v", name, x)
			require.Contains(t, string(e.Error.Details), `"/steps/0"`)
		}
	}
	require.Empty(t, g.all())
}

func TestRefusedCallLosesNoStep(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		_, tenant := connected(t, s)
		trigger := publish(t, tenant, "Calls with deep arguments", `[
			{"id":"before","type":"set","assign":{"deep":"${reduce range(63) as $i (1; [.])}"}},
			{"id":"call","type":"verb","verb":"gate:get_thing","args":{"id":"${vars.deep}"},"on_error":"continue"}]`)
		first := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{}}, "Prefer: wait=60"), http.StatusOK)
		e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+first.ExecutionID, nil), http.StatusOK)
		status := map[string]string{}
		for _, step := range e.Steps {
			status[step.Path] = step.Status
		}
		require.Equal(t, map[string]string{"/steps/0": "completed", "/steps/1": "failed"}, status)
	})
}

func TestWaitingMapIsCancelled(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Waits", `[
			{"id":"w","type":"wait","for":"1h"},
			{"id":"never","type":"verb","verb":"gate:get_thing","args":{"id":"never"}}]`)
		a := tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=0")
		one := mapExecutionOf(t, a, http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		require.Equal(t, path, a.Header.Get("Location"))
		mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
		ended := mapExecutionOf(t, tenant.Runtime.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "cancelled", ended.Status)
		again := tenant.Runtime.Do(http.MethodPost, path+"/cancel", nil)
		require.Equal(t, http.StatusConflict, again.Status, "%s", again.Body)
		require.Empty(t, g.all())
	})
}

// The step is where people look first, and its Map says the same of the failure. Neither repeats the value.
func TestMapSaysWhichArgumentOfItsStepIsWrong(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Looks for a number", `[{"id":"seen","type":"verb","verb":"gate:get_thing","args":{"id":"${trigger_data.id}"}}]`)
		body := map[string]any{"payload": map[string]any{"id": 7777123}}
		a := tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60")
		failed := requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
		const want = "The arguments do not fit the verb's schema: /args/id must be string."
		require.Contains(t, string(failed.Error.Details), want)
		require.NotContains(t, string(a.Body), "7777123")
		e := mapExecutionOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+failed.Error.ExecutionID, nil), http.StatusOK)
		require.Equal(t, "INVALID_ARGS", e.Error.Code)
		require.Equal(t, want, e.Error.Detail)
		require.Equal(t, want, e.Steps[0].Error.Detail)
		require.Empty(t, g.all())
	})
}

// A name that is taken is answered whatever the payload is. The answer says where that is another one.
func TestTriggerSaysThatItsPayloadIsAnother(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		trigger := publish(t, tenant, "Makes a thing, and fails where it shall", `[
			{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}},
			{"id":"sort","type":"switch","cases":[{"when":"${trigger_data.fails}","steps":[{"id":"no","type":"raise","error":{"code":"NO"}}]}]}]`)
		for _, fails := range []bool{false, true} {
			list := ids(2)
			with := func(id string) rig.Answer {
				body := map[string]any{"session_id": list[0], "payload": map[string]any{"id": id, "fails": fails}}
				return tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60")
			}
			of := func(a rig.Answer) (match *bool, message string) {
				if fails {
					e := requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
					return e.Error.PayloadMatch, e.Error.Message
				}
				e := mapExecutionOf(t, a, http.StatusOK)
				return e.PayloadMatch, e.Message
			}
			match, _ := of(with(list[0]))
			require.Nil(t, match)
			match, message := of(with(list[0]))
			require.True(t, *match)
			require.NotContains(t, message, "payload")
			match, message = of(with(list[1]))
			require.False(t, *match)
			require.Contains(t, message, "The payload of this trigger was not used")
			require.Empty(t, g.of(list[1]))
		}
	})
}
