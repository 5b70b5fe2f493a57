package changing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/service/changing"
)

// world has the runs of a goal. What people approve becomes what then says of it.
type world struct {
	runs []run.DryRun
	// then is what comes of an approval, by the id of the approval: the state of the run, "pending" where
	// others have to approve too.
	then    map[string]run.State
	decided []string
	refuses error
}

func (w *world) Answers(context.Context, conversation.Turn) ([]conversation.Asked, error) {
	var list []conversation.Asked
	for _, r := range w.runs {
		list = append(list, conversation.Asked{Runs: []conversation.Run{{ExecutionID: r.ExecutionID}}})
	}
	return append(list, conversation.Asked{Runs: []conversation.Run{{ExecutionID: "not one of ours"}}}), nil
}

func (w *world) DryRuns(_ context.Context, _ uuid.UUID, ids []uuid.UUID, bare bool) (list []run.DryRun, err error) {
	for _, r := range w.runs {
		if !slices.Contains(ids, r.ID) {
			continue
		}
		if !bare {
			r.Args = json.RawMessage(`{"n":1}`)
		}
		list = append(list, r)
	}
	return list, nil
}

func (w *world) Decide(_ context.Context, _ actor.Actor, id string, in desk.Input) (desk.Detailed, error) {
	w.decided = append(w.decided, fmt.Sprint(id, " ", in.Approve))
	for i := range w.runs {
		if w.runs[i].ApprovalID != id || w.refuses != nil {
			continue
		}
		switch state := w.then[id]; {
		case !in.Approve:
			w.runs[i].Approval = governance.ApprovalRejected
		case state == "pending":
		case state == "superseded":
			w.runs[i].Approval = governance.ApprovalSuperseded
		case state == "":
			w.runs[i].Approval, w.runs[i].State = governance.ApprovalApproved, run.StateExecuted
		default:
			w.runs[i].Approval, w.runs[i].State = governance.ApprovalApproved, state
		}
	}
	return desk.Detailed{}, w.refuses
}

// worldOf has runs a, b and so on, each with a state and the status of its approval.
func worldOf(list ...string) *world {
	w := &world{then: map[string]run.State{}}
	for i, one := range list {
		state, approval, _ := strings.Cut(one, " ")
		id := uuid.Must(uuid.NewV7())
		w.runs = append(w.runs, run.DryRun{
			ID: id, ExecutionID: "exec_" + id.String(), State: run.State(state), Approval: governance.ApprovalStatus(approval), ApprovalID: string(rune('a' + i)),
		})
	}
	return w
}

func service(t *testing.T, w *world) *changing.Service {
	t.Helper()
	s, err := changing.New(changing.Deps{Goals: w, Runs: w, Approvals: w})
	require.NoError(t, err)
	return s
}

func rehearsed() conversation.Turn {
	return conversation.Turn{State: conversation.Ended, Goal: &conversation.Goal{DryRun: true}}
}

const asked = "intercepted pending"

func TestListSaysHowFarChangesAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs   []string
		status execution.SetStatus
		each   []execution.ChangeStatus
	}{
		"none":            {nil, "", nil},
		"proposed":        {[]string{asked, "executed approved"}, execution.SetProposed, []execution.ChangeStatus{"proposed", "applied"}},
		"being applied":   {[]string{"sending approved", "claimed approved", "intercepted approved", "failed approved"}, execution.SetApplying, []execution.ChangeStatus{"applying", "applying", "approved", "failed"}},
		"applied":         {[]string{"executed approved", "intercepted rejected"}, execution.SetApplied, []execution.ChangeStatus{"applied", "rejected"}},
		"one has failed":  {[]string{"outcome_unknown approved", asked}, execution.SetStopped, []execution.ChangeStatus{"failed", "proposed"}},
		"one has drifted": {[]string{"intercepted superseded"}, execution.SetStopped, []execution.ChangeStatus{"drifted"}},
		"rejected":        {[]string{"intercepted rejected", "intercepted expired"}, execution.SetRejected, []execution.ChangeStatus{"rejected", "not_applied"}},
		"expired":         {[]string{"intercepted expired", "intercepted cancelled"}, execution.SetExpired, []execution.ChangeStatus{"not_applied", "not_applied"}},
	} {
		list, err := service(t, worldOf(c.runs...)).List(t.Context(), rehearsed(), 0, 100)
		require.NoError(t, err)
		require.Equal(t, c.status, list.Status, name)
		var each []execution.ChangeStatus
		for i, one := range list.Changes {
			require.Equal(t, int32(i+1), one.Number)
			require.JSONEq(t, `{"n":1}`, string(one.Args))
			each = append(each, one.Status)
		}
		require.Equal(t, c.each, each, name)
	}
	s := service(t, worldOf(asked, asked, asked))
	page, err := s.List(t.Context(), rehearsed(), 1, 1)
	require.NoError(t, err)
	require.True(t, page.More)
	require.Equal(t, int32(2), page.Changes[0].Number)
	page, err = s.List(t.Context(), conversation.Turn{}, 0, 1)
	require.NoError(t, err)
	require.Empty(t, page.Changes)
}

// Changes are decided in their order, and only up to the first that is not applied.
func TestDecideAppliesInOrderUpToTheFirstThatFails(t *testing.T) {
	t.Parallel()
	all := execution.Selection{ApproveAll: true}
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		runs    []string
		then    map[string]run.State
		sel     execution.Selection
		until   time.Time
		ended   bool
		decided []string
		code    fault.Code
	}{
		"all":                       {[]string{asked, asked}, nil, all, soon, true, []string{"a true", "b true"}, ""},
		"none":                      {[]string{asked, asked}, nil, execution.Selection{RejectAll: true}, soon, true, []string{"a false", "b false"}, ""},
		"the first fails":           {[]string{asked, asked}, map[string]run.State{"a": run.StateFailed}, all, soon, true, []string{"a true"}, ""},
		"the first has drifted":     {[]string{asked, asked}, map[string]run.State{"a": "superseded"}, all, soon, true, []string{"a true"}, ""},
		"others must approve too":   {[]string{asked, asked}, map[string]run.State{"a": "pending"}, all, soon, true, []string{"a true"}, ""},
		"no time is left":           {[]string{asked, asked}, nil, all, past, false, []string{"a true"}, ""},
		"it lasts":                  {[]string{asked, asked}, map[string]run.State{"a": run.StateSending}, all, past, false, []string{"a true"}, ""},
		"goes on":                   {[]string{"executed approved", "intercepted rejected", asked}, nil, all, past, false, nil, fault.CodeConflict},
		"goes on, without rejected": {[]string{"executed approved", asked}, nil, all, past, true, []string{"b true"}, ""},
		"failed before":             {[]string{"failed approved", asked}, nil, all, soon, true, nil, ""},
		"otherwise, was applied":    {[]string{"executed approved"}, nil, execution.Selection{RejectAll: true}, soon, false, nil, fault.CodeConflict},
		"otherwise, too late":       {[]string{"intercepted expired"}, nil, all, soon, false, nil, fault.CodeConflict},
		"nothing to decide":         {nil, nil, all, soon, false, nil, fault.CodeConflict},
		"one is left out":           {[]string{asked}, nil, execution.Selection{Approve: []string{}}, soon, false, nil, fault.CodeValidation},
	} {
		w := worldOf(c.runs...)
		maps.Copy(w.then, c.then)
		ended, err := service(t, w).Decide(t.Context(), actor.Actor{}, rehearsed(), changing.Decision{Selection: c.sel, Until: c.until})
		require.Equal(t, c.decided, w.decided, name)
		if c.code != "" {
			require.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.ended, ended, name)
	}
	for name, turn := range map[string]conversation.Turn{"no dry run": {State: conversation.Ended}, "not ended": {State: conversation.Working, Goal: &conversation.Goal{DryRun: true}}} {
		_, err := service(t, worldOf(asked)).Decide(t.Context(), actor.Actor{}, turn, changing.Decision{Selection: all, Until: soon})
		require.True(t, fault.HasCode(err, fault.CodeConflict), name)
	}
	w := worldOf(asked)
	w.refuses = fault.New(fault.CodeApproverNotEligible, "")
	_, err := service(t, w).Decide(t.Context(), actor.Actor{}, rehearsed(), changing.Decision{Selection: all, Until: soon})
	require.True(t, fault.HasCode(err, fault.CodeApproverNotEligible))
}
