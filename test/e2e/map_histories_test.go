package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"agentruntime/internal/base/flow"
	"agentruntime/test/rig"
)

// innerShape is the Map that others start, which waits for an event; innerID stands for its id.
const (
	innerShape = `[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"i"}},{"id":"w","type":"wait","event":{"type":"custom.go"}}]`
	innerID    = "INNER"
)

// decides waits until people are asked, and has them decide; no decision has the question expire.
func decides(decision string, body any) func(*testing.T, *rig.Tenant, string) {
	return func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		id := awaitAsking(t, tenant, path)
		if decision != "" {
			decide(t, tenant.User, id, decision, body)
		}
	}
}

// goes sends the event that an execution waits for in the step.
func goes(step string) func(*testing.T, *rig.Tenant, string) {
	return func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		waitsIn(t, tenant, path, step)
		send(t, tenant, "custom.go", "", map[string]any{"n": 1})
	}
}

// stands waits until an execution has a status.
func stands(t *testing.T, tenant *rig.Tenant, path, status string) {
	t.Helper()
	rig.Until(t, arriveLimit, path+" is "+status, func() bool { return askingOf(t, tenant, path).Status == status })
}

// approvesTheCall waits until people are asked about a call, and approves it.
func approvesTheCall(t *testing.T, tenant *rig.Tenant, _ string) {
	t.Helper()
	var list []struct {
		ID string `json:"id"`
	}
	rig.Until(t, arriveLimit, "people are asked", func() bool {
		tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &list)
		return len(list) == 1
	})
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, "/v1/approvals/"+list[0].ID+"/approve", nil).Status)
}

// mapShapes are the ways in which the workflow of a Map can go.
var mapShapes = map[string]struct {
	steps, status string
	// do is what happens while it waits; nil for nothing.
	do func(t *testing.T, tenant *rig.Tenant, path string)
}{
	"chain": {`[{"id":"each","type":"foreach","items":"${[range(40)]}","steps":[{"id":"link","type":"verb","verb":"gate:get_thing","args":{"id":"${item | tostring}","mode":"while"}}]}]`, "completed", nil},
	"steps": {`[
		{"id":"both","type":"parallel","branches":[
			{"id":"a","steps":[{"id":"read","type":"verb","verb":"gate:get_thing","args":{"id":"a"}}]},
			{"id":"b","steps":[{"id":"l","type":"foreach","items":[1,2,3],"mode":"parallel","steps":[
				{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${item | tostring}"}}]}]}]},
		{"id":"n","type":"set","assign":{"n":0}},
		{"id":"w","type":"while","when":"${vars.n < 3}","max_iterations":5,"steps":[{"id":"add","type":"set","assign":{"n":"${vars.n + 1}"}}]},
		{"id":"sandboxed","type":"transform","expr":"${[range(3)] | map(. * 2) | add}"},
		{"id":"check","type":"validate","value":"${vars.n}","schema":{"type":"integer"}},
		{"id":"sort","type":"switch","cases":[{"when":"${vars.n == 3}","steps":[{"id":"told","type":"emit","event":"custom.done","data":{"n":"${vars.n}"}}]}]},
		{"id":"caught","type":"raise","error":{"code":"NO"},"on_error":"continue"},
		{"id":"out","type":"return","output":"${vars.n}"}]`, "completed", nil},
	"waits": {`[{"id":"w","type":"wait","for":"1s"},{"id":"t","type":"verb","verb":"gate:create_thing","args":{"id":"t","mode":"later once"}}]`, "completed", nil},
	"undone": {`[
		{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"u"},"compensate":{"verb":"gate:create_thing","args":{"id":"v"}}},
		{"id":"no","type":"raise","error":{"code":"NO"}}]`, "failed", nil},
	"undone_held": {`[
		{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"u"},"compensate":{"verb":"gate:delete_thing","args":{"id":"u"}}},
		{"id":"no","type":"raise","error":{"code":"NO"}}]`, "failed", approvesTheCall},
	"models": {`[
		{"id":"kind","type":"classify","input":"Money back!","labels":["refund","question"]},
		{"id":"work","type":"agent","goal":"Make the apple","tools":["gate:get_thing","gate:create_*"],"max_attempts":2,
			"complete_when":"${any(.calls[]; .verb == \"gate:create_thing\" and .status == \"executed\")}"},
		{"id":"none","type":"extract","input":"nothing answers this","schema":{"type":"object"},"on_error":"continue"}]`, "completed", nil},
	"cancelled": {`[{"id":"w","type":"wait","for":"1h"}]`, "cancelled", func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		for _, what := range []string{"pause", "resume", "cancel"} {
			require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/"+what, nil).Status)
		}
	}},
	"held":           {`[{"id":"made","type":"verb","verb":"gate:delete_thing","args":{"id":"h"}}]`, "completed", approvesTheCall},
	"asked_approved": {`[{"id":"ask","type":"approval","title":"Go?","payload":{"n":1}}]`, "completed", decides("approve", nil)},
	"asked_edited":   {`[{"id":"ask","type":"approval","title":"Go?","payload":{"n":1}}]`, "completed", decides("approve", map[string]any{"edited_args": map[string]any{"n": 2}})},
	"asked_answered": {
		`[{"id":"ask","type":"approval","title":"Go?","form":{"type":"object","properties":{"n":{"type":"integer"}}}}]`, "completed",
		decides("approve", map[string]any{"response": map[string]any{"n": 2}}),
	},
	"asked_rejected": {`[{"id":"ask","type":"approval","title":"Go?"}]`, "failed", decides("reject", map[string]any{"reason": "no"})},
	"asked_expired":  {`[{"id":"ask","type":"approval","title":"Go?","timeout":"2s","on_timeout":"continue"}]`, "completed", nil},
	"asked_withdrawn": {`[{"id":"both","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"ask","type":"approval","title":"Go?"}]},
		{"id":"b","steps":[{"id":"w","type":"wait","event":{"type":"custom.go"}},{"id":"no","type":"raise","error":{"code":"NO"}}]}]}]`, "failed", func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		decides("", nil)(t, tenant, path)
		send(t, tenant, "custom.go", "", map[string]any{"n": 1})
	}},
	"event_met": {`[{"id":"w","type":"wait","event":{"type":"custom.go","filter":"${.data.n == 1}"}}]`, "completed", goes("w")},
	"until":     {`[{"id":"w","type":"wait","until":"${$now[0:19] + \"Z\" | fromdate | . + 2 | todate}"}]`, "completed", nil},
	"thought": {`[
		{"id":"short","type":"summarize","input":"The hazel bears nuts."},
		{"id":"why","type":"reason","question":"Which echo is it?","context":"${steps.short.output}"}]`, "completed", nil},
	"escalated": {`[
		{"id":"told","type":"escalate","reason":"It is odd."},
		{"id":"asked","type":"escalate","reason":"Look at it.","wait":true}]`, "completed", func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		stands(t, tenant, path, "escalated")
		require.Equal(t, http.StatusOK, signal(t, tenant, path, "handled", map[string]any{"n": 1}).Status)
	}},
	"retried": {`[
		{"id":"check","type":"validate","value":false,"schema":{"const":true}},
		{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"r"}}]`, "completed", func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		stands(t, tenant, path, "failed")
		a := tenant.User.Do(http.MethodPost, path+"/retry", map[string]any{"edits": map[string]any{"check": true}}, "Prefer: wait=60")
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}},
	// Where the server suggests a new history soon, the change comes while all four branches wait.
	"continued": {`[{"id":"all","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"c"}},{"id":"l","type":"foreach","items":[1,2,3],"steps":[{"id":"w","type":"wait","for":"1s"}]}]},
		{"id":"b","steps":[{"id":"ask","type":"approval","title":"Go?","payload":{"n":1}}]},
		{"id":"c","steps":[{"id":"e","type":"wait","event":{"type":"custom.go","filter":"${.data.n == 1}"}}]},
		{"id":"d","steps":[{"id":"sub","type":"map","map_id":"` + innerID + `"}]}]}]`, "completed", func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		decides("approve", nil)(t, tenant, path)
		send(t, tenant, "custom.go", "", map[string]any{"n": 1})
	}},
	"event_timed_out": {`[{"id":"w","type":"wait","event":{"type":"custom.never","timeout":"1s"},"on_error":"continue"}]`, "completed", nil},
	"sub_started":     {`[{"id":"sub","type":"map","map_id":"` + innerID + `","wait":false}]`, "completed", nil},
	"sub_waited":      {`[{"id":"sub","type":"map","map_id":"` + innerID + `"}]`, "completed", goes("sub")},
	"sub_cancelled": {`[{"id":"sub","type":"map","map_id":"` + innerID + `"}]`, "cancelled", func(t *testing.T, tenant *rig.Tenant, path string) {
		t.Helper()
		waitsIn(t, tenant, path, "sub")
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, path+"/cancel", nil).Status)
	}},
}

// TestTemporalMapShowsNoValues reads everything that Temporal stores about Maps, without the
// codec's key.
func TestTemporalMapShowsNoValues(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		c := stranger(t, s)
		for name, shape := range mapShapes {
			_, tenant := connected(t, s)
			a := tenant.User.Do(http.MethodPost, "/v1/policies", map[string]any{
				"name": "asks", "verbMatchers": []any{map[string]any{"type": "verb", "value": "gate:delete_thing"}}, "action": map[string]any{"type": "require_approval"}, "approval": map[string]any{"self_approval": true},
			})
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			steps := strings.ReplaceAll(shape.steps, innerID, mapID(publish(t, tenant, "inner", innerShape)))
			a = tenant.Runtime.Do(http.MethodPost, publish(t, tenant, name, steps), map[string]any{}, "Prefer: wait=0")
			path := "/v1/executions/" + executionIn(t, a)
			if shape.do != nil {
				shape.do(t, tenant, path)
			}
			e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
			require.Equal(t, shape.status, e.Status, "%s: %v", name, e.Error)
			t.Logf("%s: %s", name, e.WorkflowID)
			events := closedMap(t, c, e.WorkflowID)
			for _, event := range events.Events {
				requireNoValue(t, event)
			}
			first := events.Events[0].GetWorkflowExecutionStartedEventAttributes()
			switch {
			case !*record:
			case first.ContinuedExecutionRunId != "":
				// The server was told to suggest a new history soon.
				recordHistory(t, s, lane+"_map_continued", historyOf(t, c, e.WorkflowID, first.ContinuedExecutionRunId))
				recordHistory(t, s, lane+"_map_continued_in", events)
			default:
				recordHistory(t, s, lane+"_map_"+name, events)
			}
		}
	})
}

// closedMap reads the events of the last history of a Map that has ended.
func closedMap(t *testing.T, c client.Client, workflowID string) *historypb.History {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), arriveLimit)
	defer stop()
	require.NoError(t, c.GetWorkflow(ctx, workflowID, "").Get(ctx, nil), "%s has not closed", workflowID)
	return historyOf(t, c, workflowID, "")
}

// requireNoValue checks that every payload of the event is encrypted, but for what operators read
// at steps and timers.
func requireNoValue(t *testing.T, event *historypb.HistoryEvent) {
	t.Helper()
	event = withoutAttributes(t, event)
	event.UserMetadata = nil
	raw, err := protojson.Marshal(event)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "gate-token")
	var tree any
	require.NoError(t, json.Unmarshal(raw, &tree))
	walkPayloads(tree, func(encoding, data []byte) {
		require.Equal(t, "binary/encrypted", string(encoding), "%s: %s", event.EventType, data)
	})
}

// historyOf reads the events of one history of a workflow; "" for the last.
func historyOf(t *testing.T, c client.Client, workflowID, runID string) *historypb.History {
	t.Helper()
	h := &historypb.History{}
	for it := c.GetWorkflowHistory(t.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, event)
	}
	return h
}

// applyOf returns the id of the workflow that applies the changes of a dry run.
func applyOf(t *testing.T, tenant string, e mapExecution) string {
	t.Helper()
	id := uuid.MustParse(strings.TrimPrefix(e.ExecutionID, "exec_"))
	return flow.ApplyWorkflowID(flow.ApplyRef{TenantID: uuid.MustParse(tenant), ID: id})
}
