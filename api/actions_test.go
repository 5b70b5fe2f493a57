package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/verb"
)

func TestGovernanceStatusOfEachState(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  run.Run
		want string
	}{
		"fresh":                   {run.Run{State: run.StateClaimed}, "pending"},
		"held":                    {run.Run{State: run.StatePending, Decision: "pending_approval"}, "pending"},
		"rejected":                {run.Run{State: run.StateRejected, Decision: "pending_approval"}, "rejected"},
		"expired":                 {run.Run{State: run.StateExpired, Decision: "pending_approval"}, "expired"},
		"blocked":                 {run.Run{State: run.StateBlocked, Decision: "block"}, "blocked"},
		"dry run":                 {run.Run{State: run.StateIntercepted, Decision: "pending_approval"}, "approved"},
		"sent":                    {run.Run{State: run.StateSending, Decision: "allow"}, "approved"},
		"executed once approved":  {run.Run{State: run.StateExecuted, Decision: "pending_approval", Sends: 1}, "approved"},
		"cancelled while held":    {run.Run{State: run.StateCancelled, Decision: "pending_approval"}, "pending"},
		"cancelled before all":    {run.Run{State: run.StateCancelled}, "pending"},
		"refused, though allowed": {run.Run{State: run.StateRefused, Decision: "allow"}, "approved"},
		"refused before a hold":   {run.Run{State: run.StateRefused, Decision: "pending_approval"}, "pending"},
		"turned away once sent":   {run.Run{State: run.StateRefused, Decision: "pending_approval", Sends: 1}, "approved"},
		"failed at the provider":  {run.Run{State: run.StateFailed, Decision: "allow", Sends: 1}, "approved"},
		"outcome unknown":         {run.Run{State: run.StateOutcomeUnknown, Decision: "allow", Sends: 1}, "approved"},
	} {
		require.Equal(t, tc.want, governanceStatus(tc.run), name)
	}
}

// A dry run remains one, also after its request was approved and sent.
func TestDryRunStaysInterceptedAfterApproval(t *testing.T) {
	t.Parallel()
	s := assemble(Deps{Now: func() time.Time { return someday }})
	r := run.Run{
		State: run.StateIntercepted, DryRun: true, Held: true, Operation: verb.Write, Verb: verb.Name{Provider: "shop", Verb: "pay"},
		Result: json.RawMessage(`{"method":"POST"}`), CreatedAt: someday,
	}
	first := s.actions.runData(run.Outcome{Run: r})
	require.True(t, first.Intercepted)
	require.Equal(t, "executed", first.FenceStatus)
	require.Contains(t, first.Message, "nothing was sent")

	r.State, r.Result = run.StateExecuted, json.RawMessage(`{"id":"1"}`)
	repeat := s.actions.runData(run.Outcome{Run: r, Cached: true})
	require.True(t, repeat.Intercepted)
	require.True(t, repeat.DryRun)
	require.JSONEq(t, `{"id":"1"}`, string(repeat.Result))

	r.Operation, r.Held = verb.Read, false
	require.False(t, s.actions.runData(run.Outcome{Run: r}).Intercepted, "a dry run of a read runs")
	r.Operation, r.Held, r.DryRun = verb.Write, true, false
	require.False(t, s.actions.runData(run.Outcome{Run: r}).Intercepted, "a held call is no dry run")
}

func TestHeldRunHasNoError(t *testing.T) {
	t.Parallel()
	id := "appr_1"
	r := run.Run{State: run.StatePending, Held: true, Decision: "pending_approval", ApprovalID: &id, CreatedAt: someday, EditedArgs: json.RawMessage("{}")}
	v := viewRun(r, someday)
	require.Nil(t, v.Error)
	require.Equal(t, "pending_approval", v.Status)
	require.Equal(t, &id, v.ApprovalID)
	require.True(t, v.Held)
	require.True(t, v.Edited)
	r.State = run.StateRejected
	require.NotNil(t, viewRun(r, someday).Error)
}
