package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
)

// What an edit is bound to may change before the edit is approved. Then people are asked
// again, and the editor still may not approve.
func TestEditorMayNotApproveALaterApprovalOfTheEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gate := rule(governance.ActionRequireApproval, "pay")
	r.policies(gate)
	x := r.held("pay", "one", `{"n":1}`)
	editor := r.user("owner")
	require.Empty(t, r.decide(x, editor, "approve", `{"n":2}`).Code)
	edited := r.wake(x)

	gate.Version = 2
	r.policies(gate)
	now := r.wake(edited)
	require.Equal(t, run.StatePending, now.State)
	require.NotEqual(t, *edited.ApprovalID, *now.ApprovalID)
	require.JSONEq(t, `{"n":2}`, string(now.Effective()))
	require.Equal(t, *x.ApprovalID, r.text(`SELECT edited_from FROM approvals WHERE id = '`+*now.ApprovalID+`'`))
	require.Equal(t, fault.CodeApproverNotEligible, r.decide(now, editor, "approve").Code)

	require.Empty(t, r.decide(now, r.user("approver"), "approve").Code)
	require.Equal(t, run.StateExecuted, r.wake(now).State)
}

func TestEditorWithdrawsTheEditByRejectingIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{"n":1}`)
	editor := r.user("approver")
	require.Empty(t, r.decide(x, editor, "approve", `{"n":2}`).Code)
	now := r.wake(x)
	require.Equal(t, fault.CodeApproverNotEligible, r.decide(now, editor, "approve").Code)
	require.Equal(t, fault.CodeApproverNotEligible, r.decide(now, r.user("member"), "reject").Code)
	require.Empty(t, r.decide(now, editor, "reject").Code)
	require.Equal(t, run.StateRejected, r.wake(now).State)
}
