package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// turnShapes are the ways in which the workflow of a message to an agent can go.
var turnShapes = map[string]struct {
	text, status string
	// do is what happens meanwhile; nil for nothing.
	do func(t *testing.T, tenant *rig.Tenant, of said)
}{
	"goal_reached": {"Make the medlar", "completed", nil},
	"goal_approved": {"Delete the quince", "completed", func(t *testing.T, tenant *rig.Tenant, of said) {
		t.Helper()
		require.Equal(t, http.StatusOK, tenant.User.Decide(*of.ApprovalID, "approve", map[string]any{}).Status)
	}},
	"goal_rejected": {"Delete the quince", "failed", func(t *testing.T, tenant *rig.Tenant, of said) {
		t.Helper()
		require.Equal(t, http.StatusOK, tenant.User.Decide(*of.ApprovalID, "reject", map[string]any{}).Status)
	}},
	"goal_missed":    {"Claim against the check", "failed", nil},
	"goal_cancelled": {"Plan for long", "cancelled", cancels},

	"answered":      {"Are you there?", "completed", nil},
	"parallel":      {"Make the kiwi", "completed", nil},
	"held_approved": {"See the fig", "completed", approves},
	"held_rejected": {"See the fig", "completed", func(t *testing.T, tenant *rig.Tenant, of said) {
		t.Helper()
		require.Equal(t, http.StatusOK, tenant.User.Decide(*of.ApprovalID, "reject", map[string]any{"reason": "no"}).Status)
	}},
	"held_cancelled": {"See the fig", "cancelled", cancels},
	"stopped":        {"Do the circle", "completed", nil},
	"escalated":      {"I want to ask a person", "escalated", nil},
	"cancelled":      {"think long", "cancelled", cancels},
	"model_failed":   {"Please break down", "failed", nil},
	"map_waited":     {"Order the mango", "completed", nil},
	"map_later": {"Await the grape", "completed", func(t *testing.T, tenant *rig.Tenant, of said) {
		t.Helper()
		a := tenant.User.Do(http.MethodPost, "/v1/executions/"+*of.Metadata.MapExecutionID+"/signal", map[string]any{"name": "ripe"})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}},
	"guided_asks":    {"A cup please", "completed", nil},
	"guided_answers": {"large", "completed", nil},
	"guided_held":    {"Remove it", "completed", approves},
	"asked":          {"Ask about the olive", "completed", nil},
	"asked_held":     {"Ask about the quince", "completed", approves},
}

func approves(t *testing.T, tenant *rig.Tenant, of said) {
	t.Helper()
	require.Equal(t, http.StatusOK, tenant.User.Decide(*of.ApprovalID, "approve", map[string]any{}).Status)
}

func cancels(t *testing.T, tenant *rig.Tenant, of said) {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/executions/"+of.ExecutionID+"/cancel", nil)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
}

// Temporal stores ids and summaries of a message, and nothing of what is said. With -record the
// histories are written: make record-turns.
func TestTemporalTurnsShowSummariesOnly(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		_, tenant := connected(t, s)
		held(t, tenant, "gate:delete_thing")
		plain, key := agentOf(t, tenant, nil)
		starts, _, _ := starter(t, tenant, orderMap, awaitMap)
		asks, _, _ := asker(t, tenant, nil)
		_, goals, _ := goalAgent(t, tenant, nil)
		guides, _ := guided(t, tenant, guidedMap, nil)
		removes, _ := guided(t, tenant, removesMap, nil)
		c := stranger(t, s)
		for name, shape := range turnShapes {
			path := plain
			switch {
			case strings.HasPrefix(name, "map_"):
				path = starts
			case strings.HasPrefix(name, "asked"):
				path = asks
			case name == "guided_held":
				path = removes
			case strings.HasPrefix(name, "guided"):
				path = guides
			}
			if name == "guided_answers" {
				saidOf(t, key.Do(http.MethodPost, path, write("A cup please", name), "Prefer: wait=60"), http.StatusOK)
			}
			wait := "Prefer: wait=60"
			if name == "cancelled" || name == "goal_cancelled" {
				wait = "Prefer: wait=0"
			}
			at, body := path, write(shape.text, name)
			if strings.HasPrefix(name, "goal_") {
				at, body = goals, goalOf(shape.text)
				if name == "goal_reached" {
					body["completion_criteria"] = []any{criterion("seen", ""), criterion("made", madeCheck)}
				}
			}
			a := key.Do(http.MethodPost, at, body, wait)
			var of said
			if a.Status >= http.StatusBadRequest {
				of.ExecutionID = a.Envelope(t).Error.ExecutionID
			} else {
				a.Data(t, &of)
			}
			if shape.do != nil {
				shape.do(t, tenant, of)
			}
			executionUntil(t, tenant, of.ExecutionID, shape.status)
			events := closedHistory(t, c, executionOf(t, tenant.User, of.ExecutionID).WorkflowID)
			for _, event := range events.Events {
				requireNoValue(t, event)
			}
			if *record {
				recordHistory(t, s, lane+"_turn_"+name, events)
			}
		}
	})
}
