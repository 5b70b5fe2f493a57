package bench

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// prepare starts the service and makes the keys, Maps and agents that are measured.
func (b *benchmark) prepare(ctx context.Context) (err error) {
	if err := b.begin(ctx, "service"); err != nil {
		return err
	}
	if err := b.startFloor(); err != nil {
		return err
	}
	if b.manager, err = b.owner.newKey(ctx, "credentials:manage"); err != nil {
		return err
	}
	if b.stored, err = b.owner.create(ctx, "/v1/credentials", b.shopKey()); err != nil {
		return err
	}
	if err := b.fenceHit(ctx); err != nil { // the first one runs
		return err
	}
	if b.trigger, err = b.owner.publish(ctx, b.mapOf("")); err != nil {
		return err
	}
	return b.agents(ctx)
}

// shopKey is a credential for the sandbox.
func (c caller) shopKey() map[string]any {
	return map[string]any{"provider": c.service.Provider, "type": "api_key", "label": "bench", "data": map[string]string{"key": c.service.ProviderKey}}
}

// publish makes a Map, and returns the path that triggers it.
func (c caller) publish(ctx context.Context, definition string) (string, error) {
	id, err := c.create(ctx, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Bench",`+definition+`}`))
	return "/v1/maps/" + id + "/trigger", err
}

// mapOf is the Map of five steps: a read, a value of it, a decision, a write and a variable. more are
// further members of its definition.
func (c caller) mapOf(more string) string {
	return more + `"steps":[
		{"id":"order","type":"verb","verb":"` + c.service.Provider + `:get_order","args":{"order_id":"${trigger_data.order_id}"}},
		{"id":"amount","type":"transform","expr":"${steps.order.output.amount}"},
		{"id":"sort","type":"switch","cases":[{"when":"${steps.amount.output > 1000}","steps":[
			{"id":"again","type":"verb","verb":"` + c.service.Provider + `:create_order","args":{
				"customer_id":"${steps.order.output.customer_id}","amount":"${steps.amount.output}","currency":"eur"}}]}]},
		{"id":"keep","type":"set","assign":{"made":"${steps.again.output.id}"}}],"output":"${vars.made}"`
}

// agents makes those that are measured, and a key that writes to them. A goal takes one step: the planner
// asks for a run, and then sees that the goal is reached. A message by a Map takes one too: the worker
// asks for a run and answers, and the manager finds the work complete.
func (b *benchmark) agents(ctx context.Context) (err error) {
	order := b.service.Provider + ":get_order"
	definition := fmt.Sprintf(`{"schema_version":"1","name":"Bench of agents","steps":[{"id":"look","type":"agent","goal":"Find the order ord_1001","tools":[%q]}],"output":"${steps.look.output}"}`, order)
	step, err := b.owner.create(ctx, "/v1/maps?publish=true", json.RawMessage(definition))
	if err != nil {
		return err
	}
	tools := map[string]any{"allow": []string{order}}
	for _, agent := range []struct {
		into *string
		path string
		body map[string]any
	}{
		{&b.agent, "/message", map[string]any{"name": "Bench"}},
		{&b.goal, "/goals", map[string]any{"name": "Bench of goals", "executionMode": "goal", "tools": tools}},
		{&b.guided, "/message", map[string]any{"name": "Bench by a Map", "executionMode": "workflow_only", "map_id": step, "tools": tools}},
	} {
		id, err := b.owner.create(ctx, "/v1/agents", agent.body)
		if err != nil {
			return err
		}
		*agent.into = "/v1/agents/" + id + agent.path
	}
	b.writer, err = b.owner.newKey(ctx, "agents:message")
	return err
}

// holdSome has a policy hold calls of one amount.
func (b *benchmark) holdSome(ctx context.Context) error {
	return b.owner.post(ctx, "/v1/policies", map[string]any{
		"name": "bench", "verbMatchers": []any{map[string]string{"type": "verb", "value": b.service.Provider + ":create_order"}},
		"conditions": []any{map[string]any{"field": "args.amount", "operator": "equals", "value": heldAmount}},
		"action":     map[string]string{"type": "require_approval"},
	}, nil)
}

// fillPending holds as many calls as asked for.
func (b *benchmark) fillPending(ctx context.Context) error {
	holding, ctx := errgroup.WithContext(ctx)
	holding.SetLimit(16)
	for range b.Pending {
		holding.Go(func() error {
			_, err := b.hold(ctx)
			return err
		})
	}
	return holding.Wait()
}
