// Package replay records what models answer, and answers from what was recorded, without a model, a
// network and a credential. It is for development and tests: production refuses to be configured with it.
//
// A cassette is a text of JSON lines. Each has a request and its answer, as internal/models/model has
// them: no header and no credential is near. What looks like a secret in a text or in arguments is
// masked before it is written. Ids and times that differ from one run to the next have placeholders, and
// an answer that repeats one of its request gets the value of the request that is asked now.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"agentruntime/internal/models/model"
)

// entry is one line of a cassette.
type entry struct {
	Request  model.Request  `json:"request"`
	Response model.Response `json:"response"`
}

// Model answers from a cassette. It is immutable and safe for concurrent use.
type Model struct{ answers map[string]model.Response }

// New reads a cassette. Where it has the same request twice, the first answer counts.
func New(cassette []byte) (*Model, error) {
	m := &Model{answers: map[string]model.Response{}}
	for n, line := range bytes.Split(cassette, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var e entry
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("replay: read line %d of the cassette: %w", n+1, err)
		}
		if dec.More() {
			return nil, fmt.Errorf("replay: line %d of the cassette is more than one object", n+1)
		}
		key, err := keyOf(e.Request)
		if err != nil {
			return nil, fmt.Errorf("replay: line %d of the cassette: %w", n+1, err)
		}
		if _, known := m.answers[key]; !known {
			m.answers[key] = e.Response
		}
	}
	return m, nil
}

// Generate implements model.Model. A request that was not recorded is a *model.Error.
func (m *Model) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	var v values
	key, err := keyOf(v.hideRequest(req))
	if err != nil {
		return model.Response{}, err
	}
	answer, known := m.answers[key]
	if !known {
		return model.Response{}, &model.Error{Reason: fmt.Sprintf("the cassette has no answer to this request for %s with %d messages", req.Purpose, len(req.Messages))}
	}
	answer = v.show(answer)
	answer.Calls = unquoted(answer.Calls)
	for piece := range strings.SplitAfterSeq(answer.Text, " ") {
		stream.Says(piece)
	}
	return answer, nil
}

// keyOf returns the text by which a request is found that is as a cassette has it.
func keyOf(req model.Request) (string, error) {
	raw, err := json.Marshal(req)
	return string(raw), err
}

// Recorder writes a cassette. It is safe for concurrent use.
type Recorder struct {
	mu   sync.Mutex
	to   io.Writer
	have map[string]bool
}

// NewRecorder returns a recorder that adds lines to a cassette, one write for each. what is what it has
// already: its requests are not recorded again.
func NewRecorder(what []byte, to io.Writer) (*Recorder, error) {
	m, err := New(what)
	if err != nil {
		return nil, err
	}
	r := &Recorder{to: to, have: map[string]bool{}}
	for key := range m.answers {
		r.have[key] = true
	}
	return r, nil
}

// Of returns the model, whose answers are recorded. An error of the model is not; an answer that cannot
// be written is an error.
func (r *Recorder) Of(next model.Model) model.Model { return recorded{r, next} }

type recorded struct {
	to   *Recorder
	next model.Model
}

// Generate implements model.Model.
func (r recorded) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	answer, err := r.next.Generate(ctx, req, stream)
	if err != nil {
		return answer, err
	}
	return answer, r.to.add(req, answer)
}

func (r *Recorder) add(req model.Request, answer model.Response) error {
	var v values
	e := entry{Request: v.hideRequest(req)}
	e.Response = v.hideAnswer(answer)
	key, err := keyOf(e.Request)
	if err != nil {
		return fmt.Errorf("replay: record: %w", err)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("replay: record: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.have[key] {
		return nil
	}
	r.have[key] = true
	if _, err := r.to.Write(append(line, '\n')); err != nil {
		return errors.Join(errors.New("replay: the cassette cannot be written"), err)
	}
	return nil
}
