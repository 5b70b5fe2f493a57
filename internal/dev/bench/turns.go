package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The scenarios of agents. A message is answered by one call of a model without delay. A goal takes one
// step: the planner asks for a run, and then sees that the goal is reached. A message by a Map takes one
// too: the worker asks for a run and answers, and the manager finds the work complete.
const (
	turnName     = "message to an agent"
	streamedName = "the same, streamed"
	goalName     = "goal of one step"
	guidedName   = "message by a Map of one step"
)

// makeAgents makes the agents that are measured, and a key that writes to them.
func (b *benchmark) makeAgents(ctx context.Context, owner credential) (err error) {
	var step struct {
		ID string `json:"id"`
	}
	definition := `{"schema_version":"1","name":"Bench of agents","steps":[{"id":"look","type":"agent","goal":"Find the order ord_1001","tools":["` + b.service.Provider + `:get_order"]}],"output":"${steps.look.output}"}`
	if err = b.post(ctx, owner, "/v1/maps?publish=true", json.RawMessage(definition), &step); err != nil {
		return err
	}
	tools := map[string]any{"allow": []string{b.service.Provider + ":get_order"}}
	for _, agent := range []struct {
		into *string
		path string
		body map[string]any
	}{
		{&b.agent, "/message", map[string]any{"name": "Bench"}},
		{&b.goal, "/goals", map[string]any{"name": "Bench of goals", "executionMode": "goal", "tools": tools}},
		{&b.guided, "/message", map[string]any{"name": "Bench by a Map", "executionMode": "workflow_only", "map_id": step.ID, "tools": tools}},
	} {
		var made struct {
			ID string `json:"id"`
		}
		if err = b.post(ctx, owner, "/v1/agents", agent.body, &made); err != nil {
			return err
		}
		*agent.into = "/v1/agents/" + made.ID + agent.path
	}
	b.writer, err = b.newKey(ctx, owner, "agents:message")
	return err
}

// pursue has an agent reach a goal of one step.
func (b *benchmark) pursue(ctx context.Context, _ int64) error {
	body := []byte(`{"goal":"Look up the order ord_1001","limits":{"goal_steps":2}}`)
	raw, err := b.call(ctx, http.MethodPost, b.goal, b.writer, body, http.StatusOK)
	if err == nil && !bytes.Contains(raw, []byte(`"criteria_met"`)) {
		err = fmt.Errorf("bench: a goal that was not reached: %s", raw)
	}
	return err
}

const greeting = `{"message":"Hello"}`

// turn has the agent answer.
func (b *benchmark) turn(ctx context.Context, _ int64) error {
	_, err := b.call(ctx, http.MethodPost, b.agent, b.writer, []byte(greeting), http.StatusOK)
	return err
}

// follow has an agent work by its Map.
func (b *benchmark) follow(ctx context.Context, _ int64) error {
	raw, err := b.call(ctx, http.MethodPost, b.guided, b.writer, []byte(greeting), http.StatusOK)
	if err == nil && !bytes.Contains(raw, []byte(`"map_completed"`)) {
		err = fmt.Errorf("bench: a Map that has not completed: %s", raw)
	}
	return err
}

// streamedTurn reads the answer while it is written.
func (b *benchmark) streamedTurn(ctx context.Context, _ int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.service.APIURL+b.agent, strings.NewReader(greeting))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	raw, err := b.send(req, b.writer, http.StatusOK)
	if err == nil && (!bytes.Contains(raw, []byte("event: message.delta")) || !bytes.Contains(raw, []byte("event: message.completed"))) {
		err = errors.New("bench: a stream without text or end")
	}
	return err
}
