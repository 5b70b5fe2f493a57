package bench

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
)

// The scenarios of messages to an agent, answered by one call of a model without delay.
const (
	turnName     = "message to an agent"
	streamedName = "the same, streamed"
)

// makeAgent makes the agent that is measured, and a key that writes to it.
func (b *benchmark) makeAgent(ctx context.Context, owner credential) (err error) {
	var made struct {
		ID string `json:"id"`
	}
	if err = b.post(ctx, owner, "/v1/agents", map[string]any{"name": "Bench"}, &made); err != nil {
		return err
	}
	b.agent = "/v1/agents/" + made.ID + "/message"
	b.writer, err = b.newKey(ctx, owner, "agents:message")
	return err
}

const greeting = `{"message":"Hello"}`

// turn has the agent answer.
func (b *benchmark) turn(ctx context.Context, _ int64) error {
	_, err := b.call(ctx, http.MethodPost, b.agent, b.writer, []byte(greeting), http.StatusOK)
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
