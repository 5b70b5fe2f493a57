package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"agentruntime/test/rig"
)

// heldRun is a run that waits for a human, from outside.
type heldRun struct {
	t        *testing.T
	tenant   *rig.Tenant
	temporal client.Client
	policy   string
	id       string
}

// approval returns what the run waits for.
func (h heldRun) approval() string {
	h.t.Helper()
	var list []struct{ ID string }
	h.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&execution_id="+h.id, nil).Data(h.t, &list)
	require.Len(h.t, list, 1)
	return list[0].ID
}

func (h heldRun) decide(approval, decision string, body any) {
	h.t.Helper()
	a := h.tenant.User.Decide(approval, decision, body)
	require.Equal(h.t, http.StatusOK, a.Status, "%s", a.Body)
}

// holdGate is the policy that holds the gate's write.
func holdGate(timeout int) map[string]any {
	return rig.RequireApproval("hold", "gate:create_thing", map[string]any{"timeout": timeout, "self_approval": true})
}

// change replaces the policy, which supersedes the approvals of its held calls.
func (h heldRun) change(timeout int) {
	h.t.Helper()
	before := h.approval()
	require.Equal(h.t, http.StatusOK, h.tenant.User.ReplacePolicy(h.policy, holdGate(timeout)).Status)
	rig.Until(h.t, arriveLimit, "a new approval is pending", func() bool {
		var list []struct{ ID string }
		h.tenant.User.Do(http.MethodGet, "/v1/approvals?status=pending&execution_id="+h.id, nil).Data(h.t, &list)
		return len(list) == 1 && list[0].ID != before
	})
}

// heldShapes are the ways of a held run: how long its approval waits, what happens to
// it, and how it ends.
var heldShapes = map[string]struct {
	timeout int
	dryRun  bool
	happens func(h heldRun)
	status  string
}{
	"approved": {3600, false, func(h heldRun) { h.decide(h.approval(), "approve", nil) }, "executed"},
	"rejected": {3600, false, func(h heldRun) { h.decide(h.approval(), "reject", map[string]string{"reason": "no"}) }, "rejected"},
	"rejected_by_signal": {3600, false, func(h heldRun) {
		// As the Temporal UI sends it: without a payload.
		_, err := h.temporal.WorkflowService().SignalWorkflowExecution(h.t.Context(), &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: "default", SignalName: "reject",
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: executionOf(h.t, h.tenant.Runtime, h.id).WorkflowID},
		})
		require.NoError(h.t, err)
	}, "rejected"},
	"expired": {1, false, func(heldRun) {}, "expired"},
	"superseded": {3600, false, func(h heldRun) {
		h.change(1800)
		h.decide(h.approval(), "approve", nil)
	}, "executed"},
	"edited": {3600, false, func(h heldRun) {
		h.decide(h.approval(), "approve", map[string]any{"edited_args": map[string]any{"id": h.id, "amount": 7}})
	}, "executed"},
	"dry_run_approved": {3600, true, func(h heldRun) { h.decide(h.approval(), "approve", nil) }, "executed"},
}

// TestTemporalHeldRunShowsSummaryOnly makes held runs end in each way, and
// reads what Temporal stores of them without the codec's key.
func TestTemporalHeldRunShowsSummaryOnly(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		for shape, want := range heldShapes {
			t.Run(shape, func(t *testing.T) {
				t.Parallel()
				g, tenant := connected(t, s)
				h := heldRun{t: t, tenant: tenant, temporal: stranger(t, s), id: "marker-" + ids(1)[0]}
				h.policy = tenant.User.NewPolicy(t, holdGate(want.timeout))
				a := tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
					"verb": "gate:create_thing", "args": map[string]any{"id": h.id, "amount": 1}, "execution_id": h.id, "dryRun": want.dryRun,
				})
				require.Contains(t, []int{http.StatusOK, http.StatusForbidden}, a.Status, "%s", a.Body)
				want.happens(h)
				e := awaitStatus(t, tenant.Runtime, h.id, want.status)
				require.Len(t, g.of(h.id), map[string]int{"executed": 1}[want.status])
				events := closedHistory(t, h.temporal, e.WorkflowID)
				for _, event := range events.Events {
					requireOnlySummary(t, event, "gate:create_thing · medium", h.id, "gate-token")
				}
				if *record {
					recordHistory(t, s, lane+"_held_"+shape, events)
				}
			})
		}
	})
}
