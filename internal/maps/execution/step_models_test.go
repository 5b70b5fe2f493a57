package execution_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// asked begins a model step of an execution.
func (r *rig) asked(name string) (execution.AskedModel, flow.MapRef) {
	r.t.Helper()
	r.maps.program = r.program(`{"schema_version":"1","name":"Asks","steps":[{"id":"short","type":"summarize","input":"canary-input"}]}`)
	ref := r.triggered(name)
	start := stepmachine.StartModel{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Type: "summarize", Input: stepmachine.Of(json.RawMessage(`{"input":"canary-input"}`))}
	_, err := r.Write(r.t.Context(), flow.MapWrites{MapRef: ref, Commands: []stepmachine.Command{start}})
	require.NoError(r.t, err)
	e, err := r.Head(r.t.Context(), ref)
	require.NoError(r.t, err)
	a, err := r.Model(r.t.Context(), e, start.Ref)
	require.NoError(r.t, err)
	require.JSONEq(r.t, `{"input":"canary-input"}`, string(a.Input))
	return a, ref
}

func turnOf(text string) execution.ModelTurn {
	return execution.ModelTurn{Request: &model.Request{Purpose: model.Summarize, Messages: []model.Message{{Role: model.User, Text: text}}}}
}

func answered(text string, tokens int64) execution.ModelTurn {
	return execution.ModelTurn{Answer: model.Response{Model: "m", Text: text, Finish: model.Stopped, Usage: model.Usage{In: tokens, Out: 1}}}
}

// Two attempts of one call store one row, and the first answer. Its tokens count once.
func TestModelCallIsStoredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, ref := r.asked("once")
	for _, want := range []bool{true, false} {
		stored, err := a.BeginTurn(t.Context(), 0, new(turnOf("canary-asked")), nil)
		require.NoError(t, err)
		require.Equal(t, want, stored)
	}
	require.Equal(t, 1, r.number("SELECT models_asked FROM map_executions"))
	var counted []bool
	for _, turn := range []execution.ModelTurn{answered("canary-first", 10), answered("canary-second", 500)} {
		require.NoError(t, a.EndTurn(t.Context(), 0, turn, func(_ *db.Batch, counts bool) { counted = append(counted, counts) }))
	}
	require.Equal(t, []bool{true, false}, counted)
	require.Equal(t, 11, r.number("SELECT tokens_used FROM map_executions"))
	require.Zero(t, r.number("SELECT usage_estimated::integer FROM map_executions"))
	_, err := a.BeginTurn(t.Context(), 1, new(turnOf("more")), nil)
	require.NoError(t, err)
	more := answered("estimated", 10)
	more.Answer.Usage.Estimate = true
	require.NoError(t, a.EndTurn(t.Context(), 1, more, func(*db.Batch, bool) {}))
	require.Equal(t, 1, r.number("SELECT usage_estimated::integer FROM map_executions"), "a part of the total is an estimate")
	turns, err := a.Turns(t.Context())
	require.NoError(t, err)
	require.Len(t, turns, 2)
	require.Equal(t, "canary-asked", turns[0].Request.Messages[0].Text)
	require.Equal(t, "canary-first", turns[0].Answer.Text)
	require.Zero(t, r.number("SELECT count(*) FROM model_calls m WHERE m::text LIKE '%canary%'"), "rows are sealed")
	require.Zero(t, r.number("SELECT count(*) FROM map_values m WHERE m::text LIKE '%canary%'"), "rows are sealed")

	_, err = r.Head(t.Context(), flow.MapRef{TenantID: uuid.New(), ID: ref.ID, Attempt: 1})
	require.Error(t, err, "another tenant has no such execution")

	r.exec("UPDATE map_executions SET status = 'completed', finished_at = now() - interval '31 days'")
	require.NoError(t, r.EraseOld(t.Context()))
	require.Zero(t, r.number("SELECT count(*) FROM model_calls"))
}

// An execution that has made as many calls as it may, or has stored as much, asks no further.
func TestModelCallsOfAnExecutionAreBounded(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]string{"calls": "models_asked = 10000", "bytes": "model_bytes = (64 << 20) - 100"} {
		r := newRig(t)
		a, _ := r.asked(name)
		r.exec("UPDATE map_executions SET " + full)
		stored, err := a.BeginTurn(t.Context(), 0, new(turnOf(strings.Repeat("x", 1000))), nil)
		require.NoError(t, err)
		require.False(t, stored, name)
		require.Zero(t, r.number("SELECT count(*) FROM model_calls"))
	}
}

// A model that may read words of others than the tenant taints its execution: what the values of the
// execution have, or an answer to a call of its own that is not trusted.
func TestModelCallTaintsItsExecutionWhereItReadsWhatOthersWrote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads   []string
		end     flow.MapToolEnd
		tainted bool
		sources []string
	}{
		"nothing before":             {},
		"a source before":            {reads: []string{"shop:read"}, tainted: true, sources: []string{"shop:read"}},
		"an answer to its call":      {end: flow.MapToolEnd{Status: stepmachine.CallExecuted, Weighed: true, Sources: []string{"shop:get"}}, tainted: true, sources: []string{"shop:get"}},
		"a trusted answer":           {end: flow.MapToolEnd{Status: stepmachine.CallExecuted, Weighed: true}},
		"an answer of before":        {end: flow.MapToolEnd{Status: stepmachine.CallExecuted}, tainted: true},
		"a call that was cancelled":  {end: flow.MapToolEnd{Status: stepmachine.CallCancelled}},
		"a source before and a call": {reads: []string{"event"}, end: flow.MapToolEnd{Sources: []string{"shop:get"}}, tainted: true, sources: []string{"event", "shop:get"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, ref := r.asked("taints")
			turn := turnOf("asked")
			turn.Ends = []flow.MapToolEnd{c.end}
			stored, err := a.BeginTurn(t.Context(), 0, &turn, c.reads)
			require.NoError(t, err)
			require.True(t, stored)
			require.Equal(t, c.tainted, turn.Tainted)
			turns, err := a.Turns(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.tainted, turns[0].Tainted)
			require.ElementsMatch(t, c.sources, turns[0].Sources)
			begun, err := r.service(nothing{}).Begin(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, c.tainted, begun.Tainted)
			require.ElementsMatch(t, c.sources, begun.Sources)
		})
	}
}

// A manager may have answered, and the step fails all the same: a condition has no value. What the answer
// has used counts.
func TestModelCallThatFailsAfterItsAnswerCountsItsTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.asked("fails")
	_, err := a.BeginTurn(t.Context(), 0, new(turnOf("canary-asked")), nil)
	require.NoError(t, err)
	turn := answered("canary-answer", 10)
	turn.Error = stepmachine.NewError("EXPRESSION_LIMIT", "complete_when")
	require.NoError(t, a.EndTurn(t.Context(), 0, turn, func(*db.Batch, bool) {}))
	require.Equal(t, 11, r.number("SELECT tokens_used FROM map_executions"))
	turns, err := a.Turns(t.Context())
	require.NoError(t, err)
	require.Equal(t, "EXPRESSION_LIMIT", turns[0].Error.Code)
	require.Equal(t, int64(11), turns[0].Answer.Usage.Total())
}

// A Map reads the output of another one that it has started until its end, and so does a message.
func TestOldMapsStayWhileTheirParentIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.triggered("parent")
	for _, name := range []string{"of_map", "of_message", "alone"} {
		r.triggered(name)
	}
	id := uuid.New()
	r.exec("INSERT INTO conversations (tenant_id, id, agent_id, created_at, updated_at) VALUES ($2, $1, $1, now(), now())", id, r.tenant)
	r.exec(`INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr, workflow_id, updated_at)
		VALUES ($2, $1, 'exec_message', $1, 1, $1, 'waiting', 'running', '', '', '{}', '', '', '', now())`, id, r.tenant)
	r.exec("UPDATE map_executions SET parent_id = 'exec_parent' WHERE execution_id = 'exec_of_map'")
	r.exec("UPDATE map_executions SET parent_id = 'exec_message' WHERE execution_id = 'exec_of_message'")
	r.exec("UPDATE map_executions SET status = 'completed', finished_at = now() - interval '31 days' WHERE execution_id <> 'exec_parent'")
	erased := func() int {
		require.NoError(t, r.EraseOld(t.Context()))
		return r.number("SELECT count(*) FROM map_executions WHERE erased_at IS NOT NULL")
	}
	require.Equal(t, 1, erased())
	r.exec("UPDATE map_executions SET finished_at = now() WHERE execution_id = 'exec_parent'")
	require.Equal(t, 2, erased())
	r.exec("UPDATE turns SET state = 'ended', finished_at = now()")
	require.Equal(t, 3, erased())
}
