// Package scripted is a model that answers from fixtures, for tests and development. The same
// request always gets the same answer, in every process: a fixture is not used up. A request that
// no fixture matches is an error. Production refuses to be configured with it.
package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentruntime/internal/models/model"
)

// Name is what the model calls itself.
const Name = "scripted"

// Fixture is one answer, and the requests that get it: those that meet all that it says.
type Fixture struct {
	// Purpose is that of the request; "" for any.
	Purpose model.Purpose `json:"purpose,omitempty"`
	// Contains are texts that the messages of the request contain.
	Contains []string `json:"contains,omitempty"`
	// Turn is how many answers of the model the conversation has; nil for any number.
	Turn *int `json:"turn,omitempty"`

	// Text, Calls, Finish and Usage are those of the answer. JSON takes the place of Text. Without
	// Finish the answer is whole, or calls tools. Without Usage a token has four bytes.
	Text   string           `json:"text,omitempty"`
	JSON   json.RawMessage  `json:"json,omitempty"`
	Calls  []model.ToolCall `json:"calls,omitempty"`
	Finish model.Finish     `json:"finish,omitempty"`
	Usage  *model.Usage     `json:"usage,omitempty"`
	// Error is why there is no answer; "" where there is one. Text is streamed before it.
	Error     string `json:"error,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`
	// DelayMS is how many milliseconds the answer takes.
	DelayMS int `json:"delay_ms,omitempty"`
	// PauseMS is how many milliseconds are between two words of the text.
	PauseMS int `json:"pause_ms,omitempty"`
}

// Model answers from fixtures. It is immutable and safe for concurrent use.
type Model struct{ fixtures []Fixture }

// New reads the fixtures: a JSON array of Fixture. Unknown members are errors.
func New(script []byte) (*Model, error) {
	dec := json.NewDecoder(bytes.NewReader(script))
	dec.DisallowUnknownFields()
	m := &Model{}
	if err := dec.Decode(&m.fixtures); err != nil {
		return nil, fmt.Errorf("scripted: read the fixtures: %w", err)
	}
	if dec.More() {
		return nil, errors.New("scripted: the fixtures are one JSON array")
	}
	return m, nil
}

// Generate implements model.Model by the first fixture that matches.
func (m *Model) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	i := slices.IndexFunc(m.fixtures, func(f Fixture) bool { return f.matches(req) })
	if i < 0 {
		return model.Response{}, &model.Error{Reason: fmt.Sprintf("no fixture of the script matches this request for %s, turn %d", req.Purpose, turn(req))}
	}
	f := m.fixtures[i]
	if err := pause(ctx, f.DelayMS); err != nil {
		return model.Response{}, err
	}
	answer := f.answer(req)
	for piece := range strings.SplitAfterSeq(answer.Text, " ") {
		stream.Says(piece)
		if err := pause(ctx, f.PauseMS); err != nil {
			return model.Response{}, err
		}
	}
	if f.Error != "" {
		return model.Response{}, &model.Error{Reason: f.Error, Retryable: f.Retryable}
	}
	return answer, nil
}

// pause returns after so many milliseconds, or with the error of ctx.
func pause(ctx context.Context, ms int) error {
	if ms == 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// turn returns how many answers of the model the conversation has.
func turn(req model.Request) (n int) {
	for _, message := range req.Messages {
		if message.Role == model.Assistant {
			n++
		}
	}
	return n
}

func (f Fixture) matches(req model.Request) bool {
	if f.Purpose != "" && f.Purpose != req.Purpose || f.Turn != nil && *f.Turn != turn(req) {
		return false
	}
	return !slices.ContainsFunc(f.Contains, func(text string) bool {
		return !slices.ContainsFunc(req.Messages, func(message model.Message) bool { return strings.Contains(message.Text, text) })
	})
}

func (f Fixture) answer(req model.Request) model.Response {
	r := model.Response{Model: Name, Text: f.Text, Calls: f.Calls, Finish: f.Finish}
	if f.JSON != nil {
		r.Text = string(f.JSON)
	}
	switch {
	case r.Finish != "":
	case len(r.Calls) > 0:
		r.Finish = model.Calling
	default:
		r.Finish = model.Stopped
	}
	if f.Usage != nil {
		r.Usage = *f.Usage
		return r
	}
	in := len(req.Instructions)
	for _, message := range req.Messages {
		in += len(message.Text)
	}
	r.Usage = model.Usage{In: tokens(in), Out: tokens(len(r.Text))}
	return r
}

// tokens returns about how many tokens so many bytes of English are.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }
