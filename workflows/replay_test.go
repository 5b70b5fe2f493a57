package workflows_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/edge/engine"
	"agentruntime/internal/kernel/flow"
	"agentruntime/workflows"
)

// TestReplayRecordedHistories replays histories of real workflows, of both start lanes, against the
// present code. A history that fails means that open workflows would break: version the
// change. `go test ./test/e2e -run TestTemporal -record` writes new ones. Those of messages to agents
// are not released: `make record-turns` records them again.
func TestReplayRecordedHistories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var recorded struct {
				KeyID   string          `json:"codec_key_id"`
				Key     string          `json:"codec_key"` // of a server that is gone
				History json.RawMessage `json:"history"`
			}
			require.NoError(t, json.Unmarshal(text, &recorded))
			key, err := hex.DecodeString(recorded.Key)
			require.NoError(t, err)
			converter, err := engine.Converter(recorded.KeyID, key)
			require.NoError(t, err)
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: converter})
			require.NoError(t, err)
			replayer.RegisterWorkflowWithOptions(workflows.ActionRun, workflow.RegisterOptions{Name: flow.WorkflowActionRun})
			replayer.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: flow.WorkflowDelivery})
			replayer.RegisterWorkflowWithOptions(workflows.EraseCustomer, workflow.RegisterOptions{Name: flow.WorkflowEraseCustomer})
			replayer.RegisterWorkflowWithOptions(workflows.MapRun, workflow.RegisterOptions{Name: flow.WorkflowMapRun})
			replayer.RegisterWorkflowWithOptions(workflows.AgentTurn, workflow.RegisterOptions{Name: flow.WorkflowAgentTurn})
			replayer.RegisterWorkflowWithOptions(workflows.ApplyChanges, workflow.RegisterOptions{Name: flow.WorkflowApplyChanges})
			history, err := client.HistoryFromJSON(bytes.NewReader(recorded.History), client.HistoryJSONOptions{})
			require.NoError(t, err)
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, history))
		})
	}
}

// Each kind of workflow, and each way that it ends, has a recorded history of both lanes.
func TestEveryEndHasARecordedHistory(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"eager", "split"} {
		for _, end := range []string{
			"executed", "blocked", "retried", "held_approved", "held_rejected", "held_rejected_by_signal", "held_expired", "held_superseded", "held_edited",
			"held_dry_run_approved", "delivery_delivered", "delivery_failed", "delivery_cancelled", "erasure_at_once", "erasure_after_a_wait",
			"map_steps", "map_held", "map_waits", "map_undone", "map_cancelled", "map_continued", "map_models", "map_changes",
			"map_asked_approved", "map_asked_edited", "map_asked_answered", "map_asked_rejected", "map_asked_expired", "map_event_met", "map_event_timed_out",
			"map_sub_started", "map_sub_waited", "map_sub_cancelled",
			"turn_answered", "turn_parallel", "turn_held_approved", "turn_held_rejected", "turn_held_cancelled", "turn_stopped", "turn_escalated", "turn_cancelled",
			"turn_model_failed", "turn_map_waited", "turn_map_later", "turn_asked", "turn_asked_held",
		} {
			require.FileExists(t, filepath.Join("testdata", lane+"_"+end+".json"))
		}
	}
}

// Histories of each form that workflows have had are replayed: without a state and with one, and
// with summaries at timers and steps.
func TestRecordedHistoriesHaveStatesAndSummaries(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(t, err)
	var plain, states, steps, timers int
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var recorded struct{ History json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &recorded))
		history, err := client.HistoryFromJSON(bytes.NewReader(recorded.History), client.HistoryJSONOptions{})
		require.NoError(t, err)
		upserts := 0
		for _, event := range history.Events {
			told := event.GetUserMetadata().GetSummary() != nil
			upserts += count(event.EventType == enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES)
			steps += count(told && event.EventType == enumspb.EVENT_TYPE_MARKER_RECORDED)
			timers += count(told && event.EventType == enumspb.EVENT_TYPE_TIMER_STARTED)
		}
		plain, states = plain+count(upserts == 0), states+count(upserts > 0)
	}
	require.Positive(t, plain)
	require.Positive(t, states)
	require.Positive(t, steps)
	require.Positive(t, timers)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
