package app

import (
	"context"
	"fmt"
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
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/customer"
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
		Conversations: a.conversations, Runs: a.runs, Budgets: a.budgets, Models: a.models, Tools: agentTools{box, starts, a.catalog}, Maps: a.executions, Facts: a.facts, Sandbox: a.sandbox, Log: a.log,
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

// presented opens the identity secrets of the key, where it has some.
func (w writers) presented(ctx context.Context, who actor.Actor, req conversation.Request) (customer.Presented, error) {
	p := customer.Presented{Mode: customer.Mode(req.Mode), CustomerID: req.CustomerID, Identity: req.Identity, Hash: req.IdentityHash}
	if len(req.IdentitySecrets) == 0 {
		return p, nil
	}
	key, err := w.a.vault.Key(ctx, who.TenantID)
	if err != nil {
		return p, fmt.Errorf("app: open an identity secret: %w", err)
	}
	for _, sealed := range req.IdentitySecrets {
		secret, err := key.Open(account.IdentityPlace(who.TenantID, who.ID), sealed)
		if err != nil {
			return p, fmt.Errorf("app: open an identity secret: %w", err)
		}
		p.Secrets = append(p.Secrets, secret)
	}
	return p, nil
}

// Check implements conversation.Customers.
func (w writers) Check(ctx context.Context, who actor.Actor, req conversation.Request) error {
	p, err := w.presented(ctx, who, req)
	if err != nil {
		return err
	}
	return p.Check()
}

// Writer implements conversation.Customers.
func (w writers) Writer(ctx context.Context, who actor.Actor, req conversation.Request) (*conversation.Writer, error) {
	p, err := w.presented(ctx, who, req)
	if err != nil {
		return nil, err
	}
	found, err := w.a.customers.Identify(ctx, who, p)
	if err != nil || found == nil {
		return nil, err
	}
	return &conversation.Writer{ID: found.Customer.ID, Ignored: found.Ignored}, nil
}
