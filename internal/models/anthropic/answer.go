package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
)

// event is an event of a stream, or a whole message in its place.
type event struct {
	Type         string   `json:"type"`
	Message      *message `json:"message"`
	Index        int64    `json:"index"`
	ContentBlock block    `json:"content_block"`
	Delta        struct {
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

type message struct {
	Model      string  `json:"model"`
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      usage   `json:"usage"`
}

type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

type usage struct {
	In      int64 `json:"input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
	Out     int64 `json:"output_tokens"`
}

// answer gathers the pieces of an answer.
type answer struct {
	pieces   *chat.Pieces
	optional []string // the fields that the request can do without
	used     usage
	stop     string
	whole    bool
}

func (a *answer) add(raw chat.Event) error {
	var e event
	if err := json.Unmarshal(raw.Data, &e); err != nil {
		if raw.Whole && json.Valid(raw.Data) {
			return chat.InStream(raw.Data, a.optional)
		}
		return err
	}
	switch {
	case e.Type == "error" || raw.Name == "error":
		return chat.InStream(raw.Data, a.optional)
	case raw.Whole:
		return a.message(raw.Data)
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			a.pieces.Model = cmp.Or(e.Message.Model, a.pieces.Model)
			a.usage(e.Message.Usage)
		}
	case "content_block_start":
		a.begin(e.Index, e.ContentBlock)
	case "content_block_delta":
		a.pieces.Text(e.Delta.Text)
		a.pieces.Thought(e.Delta.Thinking)
		if e.Delta.PartialJSON != "" {
			a.pieces.Args(e.Index, e.Delta.PartialJSON)
		}
	case "message_delta":
		a.stop = cmp.Or(e.Delta.StopReason, a.stop)
		a.usage(e.Usage)
	case "message_stop":
		a.whole = true
	}
	return nil
}

// message takes a whole message in the place of a stream.
func (a *answer) message(data []byte) error {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	if m.Content == nil {
		return chat.InStream(data, a.optional)
	}
	for i, b := range m.Content {
		a.begin(int64(i), b)
	}
	a.pieces.Model, a.stop, a.whole = m.Model, m.StopReason, true
	a.usage(m.Usage)
	return nil
}

// begin takes a block with what it has at its beginning: some servers give all of it there.
func (a *answer) begin(index int64, b block) {
	switch b.Type {
	case "tool_use":
		a.pieces.Begin(index, b.ID, b.Name, string(b.Input))
	case "thinking":
		a.pieces.Thought(b.Thinking)
	default:
		a.pieces.Text(b.Text)
	}
}

// usage takes the counts that the server reports; later ones are of all of the answer.
func (a *answer) usage(u usage) {
	a.used = usage{In: cmp.Or(u.In, a.used.In), Read: cmp.Or(u.Read, a.used.Read), Written: cmp.Or(u.Written, a.used.Written), Out: cmp.Or(u.Out, a.used.Out)}
	a.pieces.Usage = model.Usage{In: a.used.In + a.used.Read + a.used.Written, Cached: a.used.Read, CacheWritten: a.used.Written, Out: a.used.Out}
}

// response returns the whole answer, or what was counted of one that has failed. One without its last
// event was cut by the connection. One that is cut off by its length has its calls, though arguments may
// be half: who judges it must see that there are some.
func (a *answer) response(r model.Response, err error) (model.Response, error) {
	if err == nil {
		r.Finish, err = a.end(r)
	}
	if err != nil {
		return model.Response{Model: r.Model, Usage: r.Usage}, err
	}
	if r.Finish == model.Refused {
		r.Calls = nil
	}
	return r, nil
}

func (a *answer) end(r model.Response) (model.Finish, error) {
	switch {
	case !a.whole || a.stop == "":
		return "", chat.Unfinished()
	case a.stop == "refusal":
		return model.Refused, nil
	case a.stop == "max_tokens" || a.stop == "model_context_window_exceeded":
		return model.CutOff, nil
	case len(r.Calls) > 0:
		return model.Calling, nil
	case strings.TrimSpace(r.Text) == "":
		return "", chat.Nothing(r)
	}
	return model.Stopped, nil
}
