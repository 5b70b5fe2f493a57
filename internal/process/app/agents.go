package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/policy"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/service/answering"
	"agentruntime/internal/service/dispatch"
	"agentruntime/internal/service/tooling"
)

// buildConversations comes before the steps of Maps, which count for messages what they use.
func (a *App) buildConversations() (err error) {
	a.conversations, err = conversation.New(conversation.Config{PublicURL: a.cfg.PublicURL, Keep: time.Duration(a.cfg.ResultDays) * 24 * time.Hour}, conversation.Deps{
		DB: a.pool, Agents: roll{a.agents}, Customers: writers{a}, Engine: a.engine, Keys: a.vault, Notices: a.notices, Log: a.log, Quotas: a.quotas,
	})
	return err
}

func (a *App) buildAgents(targets *dispatch.Dispatcher, policies *policy.Sets) (err error) {
	box, err := tooling.NewToolbox(tooling.ToolboxDeps{Catalog: a.catalog, Names: targets, Tools: a.tools})
	if err != nil {
		return err
	}
	if a.advice, err = tooling.NewAdviser(tooling.AdviserDeps{Toolbox: box, Catalog: a.catalog, Policies: policies}); err != nil {
		return err
	}
	starts, err := tooling.NewStarts(tooling.StartsDeps{Maps: a.maps, Agents: a.agents})
	if err != nil {
		return err
	}
	a.answers, err = answering.New(answering.Deps{
		Conversations: a.conversations, Runs: a.runs, Budgets: a.budgets, Models: a.models, Tools: answering.Toolbox{Box: box, Starts: starts, Catalog: a.catalog}, Maps: a.executions, Facts: a.facts, Sandbox: a.sandbox, Log: a.log,
	})
	return err
}

// roll finds the agents that answer.
type roll struct{ roster *roster.Service }

// Agent implements conversation.Agents.
func (r roll) Agent(ctx context.Context, tenant, id uuid.UUID, version int32) (conversation.Agent, error) {
	v, err := r.roster.Version(ctx, tenant, id, version)
	return conversation.Agent{ID: v.AgentID, Version: v.Number, Definition: v.Definition, Paused: v.Status == roster.Paused}, err
}

// dataKeys finds the data keys of tenants. The vault is opened after the accounts.
type dataKeys struct{ a *App }

// Key implements account.DataKeys.
func (k dataKeys) Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error) {
	return k.a.vault.Key(ctx, tenant)
}

// writers finds the customers that write. They are built after the conversations, which are erased
// with them.
type writers struct{ a *App }

// Check implements conversation.Customers.
func (w writers) Check(ctx context.Context, who actor.Actor, req conversation.Request) error {
	return answering.Writers{Keys: w.a.vault}.Check(ctx, who, req)
}

// Writer implements conversation.Customers.
func (w writers) Writer(ctx context.Context, who actor.Actor, req conversation.Request) (*conversation.Writer, error) {
	return answering.Writers{Keys: w.a.vault, Customers: w.a.customers}.Writer(ctx, who, req)
}
