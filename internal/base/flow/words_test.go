package flow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

func TestMapDetailsSayWhatWaits(t *testing.T) {
	t.Parallel()
	require.Equal(t, `The execution of "Refund" is running.`, flow.MapDetails(flow.MapShow{Status: stepmachine.StatusRunning}, "Refund", ""))
	waits := stepmachine.WaitsFor{For: stepmachine.WaitsApproval, Step: "pay"}
	show := flow.MapShow{Status: stepmachine.StatusPending, WaitingFor: &waits}
	require.Equal(t, "The execution of \"Refund\" is pending_approval: the step `pay` waits for people to approve \"Pay ${vars.amount}?\".", flow.MapDetails(show, "Refund", "Pay ${vars.amount}?"))
	waits.UndoneBy = "exec_1"
	require.Equal(t, "The execution of \"Refund\" is pending_approval: the call that undoes the step `pay` waits for people to approve.", flow.MapDetails(show, "Refund", ""))
}

func TestHoldDetailsSayWhoWhereAndUntilWhen(t *testing.T) {
	t.Parallel()
	text := flow.HoldDetails(flow.Hold{
		Verb: "shop:create_refund", Risk: "high", ApprovalID: "appr_1", Who: []string{"1 of 2 approvals are there, from: role owner"},
		Until: time.Date(2026, 3, 1, 13, 4, 5, 0, time.FixedZone("", 3600)), PublicURL: "https://runtime.example.com",
	})
	for _, want := range []string{
		"shop:create_refund (risk high)", "1 of 2 approvals are there, from: role owner", "https://runtime.example.com/v1/approvals/appr_1",
		"2026-03-01 12:04:05 UTC", "the signal reject",
	} {
		require.Contains(t, text, want)
	}
}

func TestHoldDetailsOfAStepSayWhereItIs(t *testing.T) {
	t.Parallel()
	text := flow.HoldDetails(flow.Hold{Step: "/steps/1", ApprovalID: "appr_1", Who: []string{"0 of 1 approvals are there, from: role owner"}, PublicURL: "https://runtime.example.com"})
	for _, want := range []string{"the step /steps/1", "role owner", "https://runtime.example.com/v1/approvals/appr_1", "Cancel ends the execution"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "signal")
}

func TestHoldDetailsOfManyRequirementsAreShort(t *testing.T) {
	t.Parallel()
	text := flow.HoldDetails(flow.Hold{Who: strings.Split(strings.Repeat("somebody,", 100), ",")[:100]})
	require.Contains(t, text, "95 more, which the approval lists")
	require.Less(t, len(text), 1000)
}

// A timer says what a call waits for: with the approval while people have to decide, and no longer.
func TestWaitSummarySaysWhoIsAwaited(t *testing.T) {
	t.Parallel()
	held, seen := flow.Step{State: flow.StatePending, ApprovalID: "appr_1"}, flow.Step{State: flow.StatePending}
	for want, at := range map[string]flow.MapCallEnd{
		"waits for people to decide appr_1 · shop:pay": {Step: held},
		"waits for people to decide appr_2 · shop:pay": {Step: seen},
		flow.CallSummary: {Step: flow.Step{State: "claimed"}},
		"waits for a kill switch to be lifted · shop:pay":               {Step: flow.Step{SwitchedOff: true}},
		"waits for people to find out what came of the call · shop:pay": {End: stepmachine.CallEnd{Status: stepmachine.CallUnknown}},
	} {
		approval := at.Step.Asked("appr_2")
		require.Equal(t, want, flow.WaitSummary(at.Awaits(approval), "shop:pay", approval))
	}
	require.Equal(t, "waits for people to decide · exec_1", flow.WaitSummary(stepmachine.WaitsApproval, "exec_1", ""))
	require.Equal(t, flow.OtherSummary, flow.WaitSummary(stepmachine.WaitsMap, "exec_1", ""))
	require.Equal(t, flow.OtherSummary, flow.WaitSummary(stepmachine.WaitsTimer, "exec_1", ""))
}

func TestSummariesOfStepsNameVerbAndTitle(t *testing.T) {
	t.Parallel()
	require.Equal(t, "calls shop:pay · /steps/0", flow.MapCallSummary("shop:pay", "/steps/0"))
	require.Equal(t, "asks people: Go? · /steps/0", flow.MapAskSummary("Go?", "/steps/0"))
	require.Equal(t, "asks people · /steps/0", flow.MapAskSummary("", "/steps/0"))
}

// The id is the caller's text and the UI shows Markdown: it must not become a link or an image.
func TestExecutionDetailsEscapeTheID(t *testing.T) {
	t.Parallel()
	text := flow.ExecutionDetails("https://runtime.example.com", "![x](https://evil/`a`)<b>/../..?q#f")
	require.True(t, strings.HasPrefix(text, "The execution is at https://runtime.example.com/v1/executions/%21%5Bx%5D%28https:%2F%2Fevil%2F"), text)
	require.NotRegexp(t, "[\\[\\]()`<>?#!*]", strings.TrimPrefix(text, "The execution is at https://"))
}

func TestPauseDetailsSayWhatTheRunWaitsFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Contains(t, flow.PauseDetails(flow.Step{After: 20 * time.Second, UnderWay: true}, now), "at the provider")
	require.Contains(t, flow.PauseDetails(flow.Step{After: 30 * time.Second}, now), "until 2026-03-01 12:00:30 UTC")
	require.Contains(t, flow.FaultDetails("SendRun", 3, now), "the step SendRun has failed 3 times")
}

// Every step has a text, and every text is among those that the codec leaves readable.
func TestEveryStepHasASummary(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		string(flow.GovernRun), string(flow.SendRun), string(flow.DecideRun), string(flow.RejectRun), string(flow.HandOverRun),
		string(flow.GiveUpRun), string(flow.LookAtRun),
	} {
		require.NotEmpty(t, flow.StepSummary(name), name)
		require.Contains(t, flow.Summaries(), flow.StepSummary(name))
	}
	require.Empty(t, flow.StepSummary("Other"))
}

func TestListingLeavesOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	l := flow.Listing{Kind: flow.KindAction, Tenant: uuid.UUID{1}, Verb: "shop:pay", Execution: "order-1"}
	require.Equal(t, map[flow.SearchAttribute]string{
		"AgentRuntimeKind": "action", "AgentRuntimeTenant": "01000000-0000-0000-0000-000000000000",
		"AgentRuntimeVerb": "shop:pay", "AgentRuntimeExecution": "order-1",
	}, l.Values())
}
