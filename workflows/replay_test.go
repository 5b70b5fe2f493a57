package workflows_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/edge/engine"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/mapdef"
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

// Each kind of workflow, and each way that it ends, has a recorded history of both lanes.
func TestEveryEndHasARecordedHistory(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"eager", "split"} {
		for _, end := range []string{
			"executed", "blocked", "retried", "held_approved", "held_rejected", "held_rejected_by_signal", "held_expired", "held_superseded", "held_edited",
			"held_dry_run_approved", "delivery_delivered", "delivery_failed", "delivery_cancelled", "erasure_at_once", "erasure_after_a_wait",
			"map_steps", "map_held", "map_waits", "map_undone", "map_undone_held", "map_undone_held_2", "map_cancelled", "map_continued", "map_models", "map_changes",
			"map_asked_approved", "map_asked_edited", "map_asked_answered", "map_asked_rejected", "map_asked_expired", "map_event_met", "map_event_timed_out",
			"map_sub_started", "map_sub_waited", "map_sub_cancelled", "map_until", "map_thought", "map_escalated", "map_continued_in", "map_retried",
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
		history, _ := recorded(t, file)
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

// mapHistory is what a recorded history of a Map began with.
type mapHistory struct {
	in    flow.MapInput
	begun flow.MapBegun
}

// mapHistories reads the recorded histories of a lane.
func mapHistories(t *testing.T, lane string) (list []mapHistory) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", lane+"_map_*.json"))
	require.NoError(t, err)
	for _, file := range files {
		history, values := recorded(t, file)
		first := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
		if first.WorkflowType.Name != flow.WorkflowMapRun {
			continue
		}
		var h mapHistory
		require.NoError(t, values.FromPayloads(first.Input, &h.in))
		for _, event := range history.Events {
			if result := event.GetMarkerRecordedEventAttributes().GetDetails()["result"]; result != nil {
				var begun flow.MapBegun // or the result of another step
				if values.FromPayloads(result, &begun) == nil && begun.Definition != nil {
					h.begun = begun
					break
				}
			}
		}
		if h.begun.Definition != nil { // one was over before it began
			list = append(list, h)
		}
	}
	return list
}

// A history of each type of steps is replayed, of each kind of wait, and of each way to begin.
func TestRecordedHistoriesHaveEveryTypeOfStep(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"eager", "split"} {
		types, waits, begins := map[mapdef.Type]bool{}, map[string]bool{}, map[string]bool{}
		see := func(s *mapdef.Step) {
			types[s.Do.Type()] = true
			if do, is := s.Do.(*mapdef.DoWait); is {
				waits["for"], waits["until"], waits["event"] = waits["for"] || !do.For.IsZero(), waits["until"] || !do.Until.IsZero(), waits["event"] || do.Event != nil
			}
		}
		for _, h := range mapHistories(t, lane) {
			def, faults := mapdef.Read(h.begun.Definition)
			require.Empty(t, faults)
			mapdef.Walk(def.Steps, see)
			begins["in a new history"] = begins["in a new history"] || h.in.Carried != nil && len(h.in.Carried.Open) > 1
			begins["with a retry"] = begins["with a retry"] || h.in.Attempt > 1 && h.begun.Again != nil
			begins["on the machine of its row"] = begins["on the machine of its row"] || h.begun.Machine > 0
			begins["from before rows had machines"] = begins["from before rows had machines"] || h.begun.Machine == 0
		}
		require.ElementsMatch(t, mapdef.Types(), slices.Collect(maps.Keys(types)), lane)
		require.Equal(t, map[string]bool{"for": true, "until": true, "event": true}, waits, lane)
		require.Equal(t, map[string]bool{"in a new history": true, "with a retry": true, "on the machine of its row": true, "from before rows had machines": true}, begins, lane)
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
