package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
)

// chunk is a piece of an answer, or a whole one: then its choices have a message in the place of a delta.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        *delta `json:"delta"`
	Message      *delta `json:"message"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	// Content is a text, or a list of parts.
	Content json.RawMessage `json:"content"`
	Refusal string          `json:"refusal"`
	// ReasoningContent and Reasoning are two names for what a model thinks.
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ToolCalls        []toolCall      `json:"tool_calls"`
}

type toolCall struct {
	Index    *int64 `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name string `json:"name"`
		// Arguments are JSON in a text, or an object.
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	In      int64 `json:"prompt_tokens"`
	Out     int64 `json:"completion_tokens"`
	Details struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// answer gathers the pieces of an answer.
type answer struct {
	pieces   *chat.Pieces
	optional []string // the fields that the request can do without
	refusal  strings.Builder
	finish   string
}

func (a *answer) add(e chat.Event) error {
	var c chunk
	if err := json.Unmarshal(e.Data, &c); err != nil {
		if e.Whole && json.Valid(e.Data) {
			return chat.InStream(e.Data, a.optional)
		}
		return err
	}
	if isSet(c.Error) || e.Name == "error" || e.Whole && len(c.Choices) == 0 {
		return chat.InStream(e.Data, a.optional)
	}
	a.pieces.Model = cmp.Or(c.Model, a.pieces.Model)
	if u := c.Usage; u != nil && (u.In != 0 || u.Out != 0) {
		a.pieces.Usage = model.Usage{In: u.In, Cached: u.Details.Cached, Out: u.Out}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		a.delta(cmp.Or(choice.Delta, choice.Message)) // some servers send both, of the same piece
		a.finish = cmp.Or(choice.FinishReason, a.finish)
	}
	return nil
}

func (a *answer) delta(d *delta) {
	if d == nil {
		return // a choice with its end only
	}
	a.pieces.Thought(cmp.Or(text(d.ReasoningContent), text(d.Reasoning)))
	a.content(d.Content)
	a.refusal.WriteString(d.Refusal)
	for _, c := range d.ToolCalls {
		a.pieces.Call(chat.Piece{Index: c.Index, ID: c.ID, Name: c.Function.Name, Args: arguments(c.Function.Arguments)})
	}
}

// content takes a text, or a list of parts. Of these only texts are said; what a model thinks is in parts
// too.
func (a *answer) content(raw json.RawMessage) {
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
		Refusal  string          `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		a.pieces.Text(text(raw))
		return
	}
	for _, part := range parts {
		switch part.Type {
		case "text", "output_text", "":
			a.pieces.Text(part.Text)
		case "refusal":
			a.refusal.WriteString(part.Refusal)
		default:
			a.pieces.Thought(cmp.Or(text(part.Thinking), part.Text))
		}
	}
}

// text returns a JSON text, and the texts of a list of parts; "" for anything else.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var whole strings.Builder
	for _, part := range parts {
		whole.WriteString(part.Text)
	}
	return whole.String()
}

func arguments(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s // null is none
	}
	return string(raw)
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// response returns the whole answer, or what was counted of one that has failed. One without a reason of
// its end may be cut off. One that is cut off by its length has its calls, though arguments may be half:
// who judges it must see that there are some.
func (a *answer) response(r model.Response, err error) (model.Response, error) {
	if err == nil {
		r.Finish, err = a.end(r)
	}
	if err != nil {
		return model.Response{Model: r.Model, Usage: r.Usage}, err
	}
	if r.Finish == model.Refused {
		r.Calls, r.Text = nil, cmp.Or(r.Text, a.refusal.String())
	}
	return r, nil
}

// end returns why the answer ended: by the words of several servers.
func (a *answer) end(r model.Response) (model.Finish, error) {
	finish := strings.ToLower(a.finish)
	switch finish {
	case "":
		return "", chat.Unfinished()
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return model.CutOff, nil
	case "content_filter", "refusal", "safety", "recitation", "prohibited_content", "sensitive":
		return model.Refused, nil
	case "error", "abort", "network_error", "insufficient_system_resource", "malformed_function_call":
		return "", &model.Error{Reason: "the provider stopped the answer: " + finish, Retryable: true}
	}
	switch {
	case a.refusal.Len() > 0:
		return model.Refused, nil
	case len(r.Calls) > 0:
		return model.Calling, nil
	case strings.TrimSpace(r.Text) == "":
		return "", chat.Nothing(r)
	}
	return model.Stopped, nil
}
