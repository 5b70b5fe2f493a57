package answering

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/tenant/budget"
)

// planner answers with one plan after the other, each for 10 tokens, and counts how often it is asked.
type planner struct {
	plans []string
	asked int
}

func (p *planner) Generate(context.Context, model.Ask, model.Stream) (model.Answer, error) {
	p.asked++
	return model.Answer{Response: model.Response{Text: p.plans[p.asked-1], Finish: model.Stopped, Usage: model.Usage{In: 10}}}, nil
}

func (*planner) Most(agentdef.Model, model.Request) budget.Amount { return budget.Amount{Tokens: 1} }

// oneVerb offers one verb.
type oneVerb struct{}

func (oneVerb) Offer(context.Context, Offer) (Toolset, error) { return oneVerb{}.Read(nil) }

func (oneVerb) Read(json.RawMessage) (Toolset, error) {
	schema := json.RawMessage(`{"type":"object"}`)
	return Toolset{
		Stored: json.RawMessage(`{}`), Tools: []model.Tool{{Name: "shop:get", Schema: schema}}, Verbs: []goalloop.Verb{{Name: "shop:get"}},
	}, nil
}

func (oneVerb) Resolve(context.Context, Offer, Toolset, model.ToolCall) (Resolved, error) {
	return Resolved{Verb: verb.Name{Provider: "shop", Verb: "get"}, Args: json.RawMessage(`{}`)}, nil
}

// faulty evaluates nothing as often as faults says, and then finds each expression true.
type faulty struct{ faults int }

func (f *faulty) For(string) expression.Sandbox { return f }

func (*faulty) Spend(int) bool { return true }

func (f *faulty) Run(context.Context, string, expression.Roots) ([]json.RawMessage, error) {
	if f.faults--; f.faults >= 0 {
		return nil, errors.New("no child can be started")
	}
	return []json.RawMessage{[]byte("true")}, nil
}

// A plan is paid for. Where a fault keeps it from being judged, a repeat judges it, and asks no model again.
func TestPlanIsKeptWhereItCannotBeJudged(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: d.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	budgets, err := budget.New(budget.Config{}, budget.Deps{DB: d.Pool})
	require.NoError(t, err)
	definition := agentdef.Default()
	definition.ExecutionMode, definition.Limits.Tokens = agentdef.Goal, 20
	definition.CompletionCriteria = []agentdef.Criterion{{ID: "seen", Description: "It was seen.", Check: "${ .facts | any(.status == \"failed\") }"}}
	talks, err := conversation.New(conversation.Config{}, conversation.Deps{
		DB: d.Pool, Agents: theAgent{definition}, Customers: noCustomers{}, Engine: noEngine{}, Keys: testkit.Keys{}, Notices: notices, Log: testkit.Quiet(),
	})
	require.NoError(t, err)
	asked, box := &planner{plans: []string{
		`{"status":"act","remaining_plan":[],"next":{"verb":"shop:get","args":{},"why":"w","expect":"e"},"criteria":[],"reason":"r"}`,
		`{"status":"done","remaining_plan":[],"next":null,"criteria":[{"id":"seen","met":true,"evidence":["` + goalloop.FactID(0) + `"]}],"reason":"Seen."}`,
	}}, &faulty{faults: 1}
	a := &Answerer{d: Deps{Conversations: talks, Maps: &execution.Service{}, Budgets: budgets, Models: asked, Tools: oneVerb{}, Sandbox: box, Log: testkit.Quiet(), Now: time.Now}}

	ref := flow.TurnRef{TenantID: uuid.Must(uuid.NewV7()), ID: uuid.Must(uuid.NewV7())}
	exec := func(sql string, args ...any) {
		_, err := d.Tenant(ref.TenantID).Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	key, err := testkit.Keys{}.Key(t.Context(), ref.TenantID)
	require.NoError(t, err)
	message := key.Seal(datakey.Place{Tenant: ref.TenantID, Row: ref.ID, Field: datakey.TurnMessage}, []byte("See it"))
	exec("INSERT INTO tenants (id, name) VALUES ($1, 'shop')", ref.TenantID)
	exec("INSERT INTO conversations (tenant_id, id, agent_id, created_at, updated_at) VALUES ($1, $2, $2, now(), now())", ref.TenantID, ref.ID)
	exec(`INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr, workflow_id, begun_at, updated_at)
		VALUES ($1, $2::uuid, $2::uuid::text, $2::uuid, 1, $2::uuid, 'working', 'running', '', $3, '{}', '', '', '', now(), now())`, ref.TenantID, ref.ID, message)
	answer := func(in flow.TurnStep) (flow.TurnNext, error) {
		loaded, over, err := talks.Load(t.Context(), ref)
		require.NoError(t, err)
		require.False(t, over)
		in.TurnRef = ref
		w := &work{Work: loaded, in: in}
		w.asGoal()
		return a.pursue(t.Context(), w)
	}
	next, err := answer(flow.TurnStep{})
	require.NoError(t, err)
	require.Len(t, next.Calls, 1)
	judged := flow.TurnStep{Answer: 1, Ends: []flow.MapToolEnd{{Status: stepmachine.CallFailed}}}
	_, err = answer(judged)
	require.ErrorContains(t, err, "no child can be started")
	next, err = answer(judged)
	require.NoError(t, err)
	require.True(t, next.Over)
	require.Equal(t, 2, asked.asked, "an answer that was paid for is asked for once")
	var status string
	var tokens int
	require.NoError(t, d.Tenant(ref.TenantID).QueryRow(t.Context(), "SELECT status, tokens_used FROM turns").Scan(&status, &tokens))
	require.Equal(t, "completed", status)
	require.Equal(t, 20, tokens)
}
