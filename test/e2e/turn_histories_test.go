package e2e

import (
	"net/http"
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
	"answered": {"Are you there?", "completed", nil},
	"parallel": {"Make the kiwi", "completed", nil},
	"held_approved": {"See the fig", "completed", func(t *testing.T, tenant *rig.Tenant, of said) {
		t.Helper()
		require.Equal(t, http.StatusOK, tenant.User.Decide(*of.ApprovalID, "approve", map[string]any{}).Status)
	}},
	"held_rejected": {"See the fig", "completed", func(t *testing.T, tenant *rig.Tenant, of said) {
		t.Helper()
		require.Equal(t, http.StatusOK, tenant.User.Decide(*of.ApprovalID, "reject", map[string]any{"reason": "no"}).Status)
	}},
	"held_cancelled": {"See the fig", "cancelled", cancels},
	"stopped":        {"Do the circle", "completed", nil},
	"escalated":      {"I want to ask a person", "escalated", nil},
	"cancelled":      {"think long", "cancelled", cancels},
	"model_failed":   {"Please break down", "failed", nil},
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
		path, key := agentOf(t, tenant, nil)
		c := stranger(t, s)
		for name, shape := range turnShapes {
			wait := "Prefer: wait=60"
			if name == "cancelled" {
				wait = "Prefer: wait=0"
			}
			a := key.Do(http.MethodPost, path, write(shape.text, name), wait)
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
