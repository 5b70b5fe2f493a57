package app

import (
	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/customer"
	"agentruntime/internal/tenant/facts"
)

// buildFacts comes before the agents, which remember customers.
func (a *App) buildFacts() (err error) {
	a.facts, err = facts.New(facts.Deps{DB: a.pool, Keys: a.vault, Quotas: a.quotas})
	return err
}

func (a *App) buildCustomers() (err error) {
	a.customers, err = customer.New(customer.Deps{
		DB: a.pool, Quotas: a.quotas, Workflows: a.engine, Log: a.log,
		Holders: []customer.Held{
			{Kind: "executions", Holder: a.runs},
			{Kind: "maps", Holder: a.executions},
			{Kind: "sessions", Holder: a.conversations},
			{Kind: "memory", Holder: a.facts},
			{Kind: "credentials", Holder: a.vault},
			{Kind: "grants", Holder: desk.GrantEraser{}},
			{Kind: "events", Holder: event.Eraser{}},
		},
		Moved: func(b *db.Batch, tenant, into, from uuid.UUID) {
			a.facts.QueueMoved(b, tenant, into, from)
			a.conversations.QueueMoved(b, tenant, into, from)
		},
	})
	return err
}
