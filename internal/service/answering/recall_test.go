package answering

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/models/model"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/tenant/budget"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// notedModels notes what is asked, and answers with the same text.
type notedModels struct{ asked []model.Ask }

func (m *notedModels) Generate(_ context.Context, ask model.Ask, _ model.Stream) (model.Answer, error) {
	m.asked = append(m.asked, ask)
	return model.Answer{Response: model.Response{Text: "All is well.", Finish: model.Stopped}}, nil
}

func (*notedModels) Most(agentdef.Model, model.Request) budget.Amount {
	return budget.Amount{Tokens: 1}
}

// theAgent is the only agent.
type theAgent struct{ d agentdef.Definition }

func (a theAgent) Agent(_ context.Context, _, id uuid.UUID, _ int32) (conversation.Agent, error) {
	return conversation.Agent{ID: id, Version: 1, Definition: &a.d}, nil
}

// These are not asked in this test.
type (
	noCustomers struct{ conversation.Customers }
	noEngine    struct{ conversation.Engine }
)

// Summaries and checks of procedures are asked of the model that the agent names for them, with all its
// settings and fallbacks, and otherwise of the worker.
func TestAsidesAreAskedOfTheirModels(t *testing.T) {
	t.Parallel()
	choice := func(name string, temperature float64) *agentdef.Model {
		return &agentdef.Model{
			Provider: "own", Model: name, Temperature: &temperature, MaxOutputTokens: 77, Timeout: agentdef.Duration(7 * time.Second),
			Fallback: []agentdef.Model{{Provider: "other", Model: name + "-after", Timeout: agentdef.Duration(3 * time.Second)}},
		}
	}
	d := testkit.Database(t)
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: d.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	budgets, err := budget.New(budget.Config{}, budget.Deps{DB: d.Pool})
	require.NoError(t, err)
	tenant := uuid.Must(uuid.NewV7())
	exec := func(sql string, args ...any) {
		_, err := d.Tenant(tenant).Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec("INSERT INTO tenants (id, name) VALUES ($1, 'shop')", tenant)
	worker, manager, summarizer := choice("worker", 0.1), choice("manager", 0.2), choice("summarizer", 0.3)
	for name, c := range map[string]struct{ manager, summarizer, checks, sums *agentdef.Model }{
		"named": {manager, summarizer, manager, summarizer}, "not named": {nil, nil, worker, worker},
	} {
		definition := agentdef.Default()
		definition.Models = agentdef.Models{Worker: worker, Manager: c.manager, Summarizer: c.summarizer}
		definition.SOPs = []agentdef.SOP{{Slug: "refund", Title: "Refunds", When: "The customer wants money back", Keywords: []string{"refund"}, Enabled: true}}
		talks, err := conversation.New(conversation.Config{}, conversation.Deps{
			DB: d.Pool, Agents: theAgent{definition}, Customers: noCustomers{}, Engine: noEngine{}, Keys: testkit.Keys{}, Notices: notices, Log: testkit.Quiet(),
		})
		require.NoError(t, err)
		models := &notedModels{}
		a := &Answerer{d: Deps{Conversations: talks, Budgets: budgets, Models: models, Log: testkit.Quiet(), Now: time.Now}}
		ref := flow.TurnRef{TenantID: tenant, ID: uuid.Must(uuid.NewV7())}
		key, err := testkit.Keys{}.Key(t.Context(), tenant)
		require.NoError(t, err)
		message := key.Seal(datakey.Place{Tenant: tenant, Row: ref.ID, Field: datakey.TurnMessage}, []byte("I want a refund"))
		exec("INSERT INTO conversations (tenant_id, id, agent_id, created_at, updated_at) VALUES ($1, $2, $2, now(), now())", tenant, ref.ID)
		exec(`INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr, workflow_id, begun_at, updated_at)
			VALUES ($1, $2::uuid, $2::uuid::text, $2::uuid, 1, $2::uuid, 'working', 'running', '', $3, '{}', '', '', '', now(), now())`, tenant, ref.ID, message)
		loaded, over, err := talks.Load(t.Context(), ref)
		require.NoError(t, err)
		require.False(t, over)
		w := &work{Work: loaded}
		text, _, err := a.summarise(t.Context(), w, []model.Message{{Role: model.User, Text: "Hello"}})
		require.NoError(t, err)
		require.Equal(t, "All is well.", text)
		require.NoError(t, a.match(t.Context(), w))
		require.Len(t, models.asked, 2, name)
		require.Equal(t, *c.sums, models.asked[0].Choice, name)
		require.Equal(t, *c.checks, models.asked[1].Choice, name)
	}
}
