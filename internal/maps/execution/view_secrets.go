package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
)

// errNotMasked is why all values are masked. Who asks again may know more.
var errNotMasked = errors.New("execution: what masks an output cannot be read")

// OutputForModel returns the output of an execution as a model reads it: as Shown has it. Where what
// masks the output cannot be read now, it returns an error: the caller tries again. Where it will not be
// known later either, all values are masked.
func (s *views) OutputForModel(ctx context.Context, e Execution) (json.RawMessage, error) {
	e.Error = nil
	shown, unknown, err := s.maskedEnd(ctx, e)
	if err == nil && !errors.Is(unknown, errBelow) && !fault.HasCode(unknown, fault.CodeMapNotFound) {
		err = unknown
	}
	if err != nil {
		return nil, err
	}
	return shown.Output, nil
}

// Hide hides the secrets that the tenant has stored in values that a model or a follower of events is to
// read. A nil value stays. It makes no round trip where no text of the values can be a secret. After an
// error nobody knows what is one, and nothing may be sent.
func (s *views) Hide(ctx context.Context, tenant uuid.UUID, values ...*json.RawMessage) error {
	b := &db.Batch{}
	hide, err := s.queueHide(ctx, b, tenant, values)
	if err == nil {
		err = s.sendBatch(ctx, tenant, b)
	}
	if err != nil {
		return fmt.Errorf("execution: stored secrets in values: %w", err)
	}
	return hide()
}

// HideEnds is Hide for the ends of calls: for results and their headers, and for the words and the
// provider's own in errors.
func (s *views) HideEnds(ctx context.Context, tenant uuid.UUID, ends ...*modelstep.ToolEnd) error {
	var values []*json.RawMessage
	words := map[*stepmachine.Error]*json.RawMessage{}
	headers := make([]json.RawMessage, len(ends))
	for i, end := range ends {
		values = append(values, &end.Result)
		if len(end.Headers) > 0 {
			headers[i] = mustJSON(end.Headers)
			values = append(values, &headers[i])
		}
		if end.Error == nil {
			continue
		}
		why, said := *end.Error, json.RawMessage(mustJSON([]string{end.Error.Title, end.Error.Detail}))
		end.Error, words[&why] = &why, &said
		values = append(values, &said, &why.ProviderError)
	}
	if err := s.Hide(ctx, tenant, values...); err != nil {
		return err
	}
	for i, shown := range headers {
		if shown == nil {
			continue
		}
		ends[i].Headers = nil // those of the run stay as they are
		if err := json.Unmarshal(shown, &ends[i].Headers); err != nil {
			return fmt.Errorf("execution: masked headers: %w", err)
		}
	}
	for why, said := range words {
		var shown [2]string
		if err := json.Unmarshal(*said, &shown); err != nil {
			return fmt.Errorf("execution: masked words of an error: %w", err)
		}
		why.Title, why.Detail = shown[0], shown[1]
	}
	return nil
}

// queueHide adds the question which texts of values are secrets of the tenant. The function returned hides
// these once the batch is sent.
func (s *views) queueHide(ctx context.Context, b *db.Batch, tenant uuid.UUID, values []*json.RawMessage) (hide func() error, err error) {
	var at []*json.RawMessage
	all := json.RawMessage("[")
	for _, value := range values {
		if len(*value) == 0 {
			continue
		}
		if len(at) > 0 {
			all = append(all, ',')
		}
		at, all = append(at, value), append(all, *value...)
	}
	if len(at) == 0 {
		return func() error { return nil }, nil
	}
	all = append(all, ']')
	own, err := s.d.Arguments.QueueOwn(ctx, b, tenant, all)
	if err != nil {
		return nil, err
	}
	return func() error {
		shown := own()
		if bytes.Equal(shown, all) {
			return nil
		}
		var masked []json.RawMessage
		if err := json.Unmarshal(shown, &masked); err != nil || len(masked) != len(at) {
			return fmt.Errorf("execution: %d masked values of %d: %w", len(masked), len(at), err)
		}
		for i, value := range at {
			*value = masked[i]
		}
		return nil
	}, nil
}

// mostShown is the most bytes of a value that an approval shows.
const mostShown = 1 << 20

// queueShown adds what is asked before a value can be shown to people. The function returns what an
// approval shows of it, once the batch is sent.
func (s *views) queueShown(ctx context.Context, b *db.Batch, tenant uuid.UUID, value json.RawMessage) (func() json.RawMessage, error) {
	shown := masked(value)
	if len(shown) > mostShown {
		size := mustJSON(map[string]int{"bytes": len(value)})
		return func() json.RawMessage { return size }, nil
	}
	own, err := s.d.Arguments.QueueOwn(ctx, b, tenant, shown)
	if err != nil {
		return nil, fmt.Errorf("execution: what people are shown: %w", err)
	}
	return own, nil
}

// masked returns a value as others than the caller may see it.
func masked(value json.RawMessage) json.RawMessage {
	out, _ := redact.NewMasker(nil).Mask(value)
	return out
}
