package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/service/answering"
	"agentruntime/internal/service/dispatch"
	"agentruntime/internal/service/tooling"
	"agentruntime/internal/tenant/customer"
)

func (a *App) buildAgents(targets *dispatch.Dispatcher) (err error) {
	a.conversations, err = conversation.New(conversation.Config{PublicURL: a.cfg.PublicURL, Keep: time.Duration(a.cfg.ResultDays) * 24 * time.Hour}, conversation.Deps{
		DB: a.pool, Agents: roll{a.agents}, Customers: writers{a}, Engine: a.engine, Keys: a.vault, Notices: a.notices, Log: a.log, Quotas: a.quotas,
	})
	if err != nil {
		return err
	}
	box, err := tooling.NewToolbox(tooling.ToolboxDeps{Catalog: a.catalog, Names: targets, Tools: a.tools})
	if err != nil {
		return err
	}
	starts, err := tooling.NewStarts(tooling.StartsDeps{Maps: a.maps, Agents: a.agents})
	if err != nil {
		return err
	}
	a.answers, err = answering.New(answering.Deps{
		Conversations: a.conversations, Runs: a.runs, Budgets: a.budgets, Models: a.models, Tools: agentTools{box, starts, a.catalog}, Maps: a.executions, Log: a.log,
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

// writers finds the customers that write. They are built after the conversations, which are erased
// with them.
type writers struct{ a *App }

func presented(req conversation.Request) customer.Presented {
	return customer.Presented{Mode: customer.Mode(req.Mode), CustomerID: req.CustomerID, Identity: req.Identity}
}

// Check implements conversation.Customers.
func (writers) Check(req conversation.Request) error { return presented(req).Check() }

// Writer implements conversation.Customers.
func (w writers) Writer(ctx context.Context, who actor.Actor, req conversation.Request) (*conversation.Writer, error) {
	found, err := w.a.customers.Identify(ctx, who, presented(req))
	if err != nil || found == nil {
		return nil, err
	}
	return &conversation.Writer{ID: found.Customer.ID, Ignored: found.Ignored}, nil
}
