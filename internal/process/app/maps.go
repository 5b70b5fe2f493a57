package app

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/edge/engine"
	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/service/authoring"
	"agentruntime/internal/service/dispatch"
	"agentruntime/internal/service/stepping"
)

func (a *App) buildMaps(policies *policy.Sets, targets *dispatch.Dispatcher) (err error) {
	if a.maps, err = definition.New(definition.Deps{DB: a.pool, Quotas: a.quotas}); err != nil {
		return err
	}
	a.authoring, err = authoring.New(authoring.Deps{DB: a.pool, Catalog: a.catalog, Policies: policies, Maps: a.maps, Models: a.models})
	if err != nil {
		return err
	}
	if a.sandbox, err = jqchild.New(jqchild.Config{Children: expressionChildren, Nice: true}); err != nil {
		return err
	}
	a.onClose(a.sandbox.Close)
	programs, err := authoring.NewPrograms(a.maps)
	if err != nil {
		return err
	}
	a.executions, err = execution.New(execution.Config{
		OneProcess: a.cfg.StartLane == string(engine.LaneEager), PublicURL: a.cfg.PublicURL, Keep: time.Duration(a.cfg.ResultDays) * 24 * time.Hour,
	}, execution.Deps{
		DB: a.pool, Definitions: programs, Results: results{a.runs}, Arguments: targets, Engine: a.engine, Keys: a.vault, Events: a.events, Notices: a.notices,
		Journal: a.journal, Sandbox: a.sandbox, Log: a.log, Quotas: a.quotas,
	})
	if err != nil {
		return err
	}
	a.ownSubjects()
	if err := a.buildConversations(); err != nil {
		return err
	}
	a.steps, err = stepping.New(stepping.Deps{
		Runs: a.runs, Executions: a.executions, Budgets: a.budgets, Catalog: a.catalog, Models: a.models, Agents: a.agents, Callers: a.conversations, Log: a.log,
	})
	return err
}

// expressionChildren is how many expressions of Maps a process evaluates at once, each in a child
// with a bound on its memory.
const expressionChildren = 4

// results reads the results of the runs of steps.
type results struct{ runs *run.Service }

// Result implements execution.Results.
func (r results) Result(ctx context.Context, tenant, id uuid.UUID) (json.RawMessage, error) {
	return stepping.Result(ctx, r.runs, tenant, id)
}
