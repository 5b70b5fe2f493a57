package workflows_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/edge/engine"
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
			history, values := recorded(t, file)
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: values})
			require.NoError(t, err)
			replayer.RegisterWorkflowWithOptions(workflows.ActionRun, workflow.RegisterOptions{Name: flow.WorkflowActionRun})
			replayer.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: flow.WorkflowDelivery})
			replayer.RegisterWorkflowWithOptions(workflows.EraseCustomer, workflow.RegisterOptions{Name: flow.WorkflowEraseCustomer})
			replayer.RegisterWorkflowWithOptions(workflows.MapRun, workflow.RegisterOptions{Name: flow.WorkflowMapRun})
			replayer.RegisterWorkflowWithOptions(workflows.AgentTurn, workflow.RegisterOptions{Name: flow.WorkflowAgentTurn})
			replayer.RegisterWorkflowWithOptions(workflows.ApplyChanges, workflow.RegisterOptions{Name: flow.WorkflowApplyChanges})
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, history))
		})
	}
}

// recorded reads a history, and what decrypts it.
func recorded(t *testing.T, file string) (*historypb.History, converter.DataConverter) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var of struct {
		KeyID   string          `json:"codec_key_id"`
		Key     string          `json:"codec_key"` // of a server that is gone
		History json.RawMessage `json:"history"`
	}
	require.NoError(t, json.Unmarshal(text, &of))
	key, err := hex.DecodeString(of.Key)
	require.NoError(t, err)
	values, err := engine.Converter(of.KeyID, key)
	require.NoError(t, err)
	history, err := client.HistoryFromJSON(bytes.NewReader(of.History), client.HistoryJSONOptions{})
	require.NoError(t, err)
	return history, values
}

// These ends have a recorded history of both lanes. Those of Maps that ask, wait and go on in a new history are
// recorded again once their workflow is settled.
func TestEveryEndHasARecordedHistory(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"eager", "split"} {
		for _, end := range []string{
			"executed", "blocked", "retried", "held_approved", "held_rejected", "held_rejected_by_signal", "held_expired", "held_superseded", "held_edited",
			"held_dry_run_approved", "delivery_delivered", "delivery_failed", "delivery_cancelled", "erasure_at_once", "erasure_after_a_wait", "map_undone_held",
			"map_models", "map_changes", "map_sub_started", "map_thought", "map_retried", "turn_answered", "turn_parallel", "turn_held_approved",
			"turn_held_rejected", "turn_held_cancelled", "turn_stopped", "turn_escalated", "turn_cancelled", "turn_model_failed", "turn_map_waited",
			"turn_map_later", "turn_asked", "turn_asked_held",
		} {
			require.FileExists(t, filepath.Join("testdata", lane+"_"+end+".json"))
		}
	}
}
