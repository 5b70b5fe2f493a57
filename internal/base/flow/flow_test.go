package flow_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// Histories contain these forms, also those of workflows that are open while a new release
// is deployed. A test that fails here means that the new release cannot continue them.
func TestPayloadsKeepTheirMembers(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40")
	ref := flow.RunRef{TenantID: id, RunID: id, Attempt: 2}
	const refMembers = `"tenant_id":"0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40","run_id":"0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40","attempt":2`
	decision := flow.Decision{ApprovalID: "appr_1", DecisionID: id}
	const decisionJSON = `{"approval_id":"appr_1","decision_id":"0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40"}`
	for _, c := range []struct {
		value any
		want  string
	}{
		{flow.ActionRunInput{RunRef: ref}, `{` + refMembers + `}`},
		{flow.ActionRunInput{RunRef: ref, Parent: "wf"}, `{` + refMembers + `,"parent":"wf"}`},
		{flow.ActionRunInput{RunRef: ref, ShowsState: true}, `{` + refMembers + `,"shows_state":true}`},
		{flow.HandOver{RunRef: ref, Parent: "wf"}, `{` + refMembers + `,"parent":"wf"}`},
		{
			flow.Step{State: flow.StatePending, After: time.Second, ApprovalID: "appr_1"},
			`{"state":"pending_approval","done":false,"after":1000000000,"approval_id":"appr_1"}`,
		},
		{flow.Step{State: flow.StatePending, Details: "x"}, `{"state":"pending_approval","done":false,"after":0,"details":"x"}`},
		{flow.Step{State: flow.StateExecuted, Done: true}, `{"state":"executed","done":true,"after":0}`},
		{decision, decisionJSON},
		{flow.DecisionInput{Run: ref, Decision: decision}, `{"run":{` + refMembers + `},"decision":` + decisionJSON + `}`},
		{flow.Decided{Closed: true}, `{"closed":true}`},
		{flow.Decided{Code: fault.CodeConflict}, `{"code":"CONFLICT","closed":false}`},
		{flow.RunResult{State: flow.StateFailed}, `{"state":"failed"}`},
		{
			flow.DeliveryInput{DeliveryRef: flow.DeliveryRef{TenantID: id, WebhookID: id, EventID: id, Round: 2}, ShowsState: true},
			`{"tenant_id":"` + id.String() + `","webhook_id":"` + id.String() + `","event_id":"` + id.String() + `","round":2,"shows_state":true}`,
		},
		{flow.DeliveryResult{State: flow.DeliveryFailed}, `{"state":"failed"}`},
	} {
		raw, err := json.Marshal(c.value)
		require.NoError(t, err)
		require.Equal(t, c.want, string(raw))
	}
}

func TestStatesThatAnswerHaveEndedOrWait(t *testing.T) {
	t.Parallel()
	for _, s := range flow.States() {
		underWay := s == flow.StateClaimed || s == flow.StateSending
		require.Equal(t, !underWay, s.Answers(), s)
		require.Equal(t, !underWay && s != flow.StatePending, s.Ended(), s)
		require.Equal(t, underWay, s.Status() == "running", s)
	}
}
