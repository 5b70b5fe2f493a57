package app

import (
	"context"
	"time"

	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/killswitch"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/mail"
	"agentruntime/internal/record/resultfile"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/budget"
	"agentruntime/internal/tenant/customer"
	"agentruntime/internal/tenant/facts"
	"agentruntime/internal/tenant/limits"
)

// A job is work that a process repeats for as long as it runs. Any number of processes may
// do the same job at once.
type job struct {
	name  string
	every time.Duration
	once  func(context.Context) error
}

// workerJobs are the jobs of a process that runs workflows.
func (a *App) workerJobs() []job {
	return []job{
		{"repair runs", a.runs.SweepEvery(), a.runs.Sweep},
		{"erase old results", run.EraseEvery, a.runs.EraseOld},
		{"delete files that no result names", resultfile.SweepEvery, a.files.Sweep},
		{"erase old executions of Maps", execution.EraseEvery, a.executions.EraseOld},
		{"forget deleted Maps", definition.ForgetEvery, func(ctx context.Context) error {
			return a.maps.Forget(ctx, time.Now().Add(-time.Duration(a.cfg.ResultDays)*24*time.Hour))
		}},
		{"forget deleted agents", roster.ForgetEvery, func(ctx context.Context) error {
			return a.agents.Forget(ctx, time.Now().Add(-time.Duration(a.cfg.ResultDays)*24*time.Hour))
		}},
		{"forget superseded facts", facts.ForgetEvery, func(ctx context.Context) error {
			return a.facts.Forget(ctx, time.Now().Add(-time.Duration(a.cfg.ResultDays)*24*time.Hour))
		}},
		{"start executions of Maps", execution.SweepEvery, a.executions.Sweep},
		{"erase old sessions of agents", conversation.EraseEvery, a.conversations.EraseOld},
		{"start messages to agents", conversation.SweepEvery, a.conversations.Sweep},
		{"apply changes of dry runs", execution.SweepEvery, a.executions.SweepApplies},
		{"give free places to executions of Maps", execution.SweepEvery, a.executions.SweepPlaces},
		{"tell executions of Maps of events", execution.TellEvery, a.executions.Tell},
		{"tell executions of Maps again of news", execution.SweepEvery, a.executions.SweepNews},
		{"fill the windows of policies", policy.FillEvery, a.policies.Fill},
		{"trim the windows of policies", policy.TrimEvery, a.policies.Trim},
		{"look after approvals", a.approvals.Every(), a.approvals.Once},
		{"tell of credentials that expire", vault.NoticeEvery, a.vault.TellOfExpiry},
		{"forget idempotency keys", idempotency.ForgetEvery, func(ctx context.Context) error { return idempotency.Forget(ctx, a.pool, time.Now()) }},
		{"forget events", event.ForgetEvery, func(ctx context.Context) error { return event.Forget(ctx, a.pool, time.Now()) }},
		{"forget counters of requests", limits.ForgetEvery, a.limits.Forget},
		{"tell tenants of their budgets", budget.TellEvery, a.budgets.Tell},
		{"give back what crashed workers reserved", budget.LapseEvery, a.budgets.Lapse},
		{"forget counters of budgets", budget.ForgetEvery, a.budgets.Forget},
		{"forget mail", mail.ForgetEvery, func(ctx context.Context) error { return mail.Forget(ctx, a.pool, time.Now()) }},
		{"forget sessions", account.ForgetEvery, func(ctx context.Context) error { return account.Forget(ctx, a.pool, time.Now()) }},
		{"forget grants", desk.ForgetEvery, func(ctx context.Context) error { return desk.Forget(ctx, a.pool, time.Now()) }},
		{"forget kill switches", killswitch.ForgetEvery, func(ctx context.Context) error { return killswitch.Forget(ctx, a.pool, time.Now()) }},
		{"forget webhook deliveries", event.ForgetEvery, a.webhooks.Forget},
		{"start erasures of customers", customer.ErasuresEvery, a.customers.StartErasures},
		{"seal the audit trail", a.trail.SealEvery(), a.trail.SealDue},
	}
}

// repeat does the job until ctx ends. A pass that fails is logged, and the next one tries
// again.
func (a *App) repeat(ctx context.Context, j job) {
	tick := time.NewTicker(j.every)
	defer tick.Stop()
	for {
		if err := j.once(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "periodic job failed", "job", j.name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
