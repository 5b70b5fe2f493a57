package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/model"
)

// History returns the messages of a request as every server takes them, also where another model or
// another server wrote them, or this one in a way that it refuses. It is made for each request again, so
// nothing that a model has answered can spoil a conversation.
//
// Calls have ids of ours, in the narrowest alphabet and length that a server wants (Mistral: nine letters
// and digits). Each is answered once, right after it; a result without its call is left out. A call of what
// cannot be a tool is told in words, as are all where the request has no tools. Empty texts are left out.
//
// A user speaks first and last, or a result is last. User and model take turns: neighbours of one side are
// one message. Between a result and a user the model says a word (Mistral refuses a user right after a
// result).
func History(req model.Request, tools Tools) []model.Message {
	h := history{tools: tools}
	for i := 0; i < len(req.Messages); i++ {
		switch m := req.Messages[i]; m.Role {
		case model.Result: // its call is no longer in the conversation
		case model.Assistant:
			end := i + 1
			for end < len(req.Messages) && req.Messages[end].Role == model.Result {
				end++
			}
			h.assistant(m, req.Messages[i+1:end])
			i = end - 1
		default:
			h.user(m.Text)
		}
	}
	if h.last() == model.Assistant || len(h.list) == 0 {
		h.user(goesOn)
	}
	if h.list[0].Role != model.User {
		h.list = append([]model.Message{{Role: model.User, Text: goesOn}}, h.list...)
	}
	return h.list
}

const (
	goesOn = "(The conversation goes on.)"
	// read is what the model says between results and what comes next.
	read = "I have read the results."
	// apart is between two messages of one side.
	apart = "\n\n"
)

type history struct {
	tools Tools
	list  []model.Message
	calls int
}

// last returns who has said the last message; "" where there is none.
func (h *history) last() model.Role {
	if len(h.list) == 0 {
		return ""
	}
	return h.list[len(h.list)-1].Role
}

func (h *history) user(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	switch h.last() { //nolint:exhaustive // a user may follow the others
	case model.User:
		h.list[len(h.list)-1].Text += apart + text
		return
	case model.Result:
		h.list = append(h.list, model.Message{Role: model.Assistant, Text: read})
	}
	h.list = append(h.list, model.Message{Role: model.User, Text: text})
}

// says adds what a model has said, and the calls that it has asked for.
func (h *history) says(said model.Message) {
	switch {
	case said.Text == "" && len(said.Calls) == 0:
	case h.last() != model.Assistant:
		h.list = append(h.list, said)
	default:
		before := &h.list[len(h.list)-1]
		before.Text, before.Calls = strings.TrimSpace(before.Text+apart+said.Text), said.Calls
	}
}

// assistant adds an answer of a model with the results that come right after it.
func (h *history) assistant(m model.Message, results []model.Message) {
	said := model.Message{Role: model.Assistant, Text: strings.TrimSpace(m.Text)}
	var answers []model.Message
	var told []string
	taken := make([]bool, len(results))
	for _, call := range m.Calls {
		result := `{"error":"there is no result of this call"}`
		for i, r := range results {
			if r.CallID == call.ID && !taken[i] {
				taken[i], result = true, r.Text
				if strings.TrimSpace(result) == "" {
					result = "null"
				}
				break
			}
		}
		name, is := h.name(call.Name)
		if !is {
			told = append(told, inWords(name, fitting(call.Args), result))
			continue
		}
		h.calls++
		id := fmt.Sprintf("call%05d", h.calls)
		said.Calls = append(said.Calls, model.ToolCall{ID: id, Name: name, Args: fitting(call.Args)})
		answers = append(answers, model.Message{Role: model.Result, CallID: id, Text: result})
	}
	h.says(said)
	h.list = append(h.list, answers...)
	h.user(strings.Join(told, "\n"))
}

// inWords tells of a call that cannot be sent as one. All of it is data, with < and > escaped.
func inWords(name string, args json.RawMessage, result string) string {
	raw, err := json.Marshal(map[string]any{"tool": name, "args": args, "result": result})
	if err != nil {
		return "" // all of it can be encoded
	}
	return "You asked for this call of a tool, and this is what it has brought.\n<data name=\"call\">" + string(raw) + "</data>"
}

// mostName is the longest name of a tool that servers take, in bytes.
const mostName = 64

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// name returns the name of a tool as models read it. is: the call can be sent as one. The name is that of a
// tool which is offered, or was: a verb. A name that a model has made up is not sent as one, because no
// server has to take it.
func (h *history) name(called string) (name string, is bool) {
	name = NameOf(called)
	_, offered := h.tools.byName[name]
	if !offered {
		_, err := verb.Parse(called)
		offered = err == nil
	}
	if offered && len(h.tools.List) > 0 && toolName.MatchString(name) {
		return name, true
	}
	return strings.ToValidUTF8(called[:min(len(called), mostName)], ""), false
}

// fitting returns arguments for a past call in a request: {} where they are no JSON object, which a
// provider would refuse.
func fitting(args json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	if loneSurrogate(args) {
		return again(args)
	}
	return bytes.TrimSpace(args)
}

// loneSurrogate reports whether there may be half a character in JSON, which strict readers refuse.
func loneSurrogate(raw []byte) bool {
	return bytes.Contains(raw, []byte(`\ud`)) || bytes.Contains(raw, []byte(`\uD`)) || !utf8.Valid(raw)
}

// again returns JSON written again, with its numbers as they are.
func again(raw json.RawMessage) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return json.RawMessage("{}")
	}
	out, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return out
}
