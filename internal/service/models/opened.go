package models

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"agentruntime/internal/base/redact"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/credential"
)

// minSecret is the shortest text of a credential that is looked for in answers, in bytes. Servers that
// need no key get a word such as "none" or "ollama", which an answer may contain.
const minSecret = 8

// opened is a model with an opened credential in it. It is the only way from a credential to an answer:
// what a server says passes the scrubber before anyone sees, streams or stores it.
type opened struct {
	asked    model.Model
	scrubber *redact.Scrubber
}

func openedWith(m model.Model, secret credential.Secret) model.Model {
	values := slices.DeleteFunc(secret.Values(), func(v string) bool { return len(v) < minSecret })
	return opened{asked: m, scrubber: redact.NewScrubber(values...)}
}

// Generate implements model.Model.
func (o opened) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	told := o.scrubber.Stream()
	answer, err := o.asked.Generate(ctx, req, model.Stream{
		Delta: func(text string) { stream.Says(told.Next(text)) },
		Reset: func(reason string) {
			told = o.scrubber.Stream()
			stream.Begins(reason)
		},
	})
	if err == nil {
		stream.Says(told.Rest())
	}
	return o.answer(answer), o.failure(err)
}

func (o opened) answer(r model.Response) model.Response {
	r.Model, r.Text, r.Reasoning, r.Finish = o.text(r.Model), o.text(r.Text), o.text(r.Reasoning), model.Finish(o.text(string(r.Finish)))
	r.Calls = slices.Clone(r.Calls)
	for i, c := range r.Calls {
		r.Calls[i] = model.ToolCall{ID: o.text(c.ID), Name: o.text(c.Name), Args: json.RawMessage(o.scrubber.Scrub(c.Args))}
	}
	return r
}

// failure returns an error without the credential. That of the context stays what it is.
func (o opened) failure(err error) error {
	var failed *model.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &failed):
		clean := *failed
		clean.Reason, clean.Said = o.text(clean.Reason), o.text(clean.Said)
		return &clean
	}
	return errors.New(o.text(err.Error()))
}

func (o opened) text(s string) string { return string(o.scrubber.Scrub([]byte(s))) }
