package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/base/redact"
	"agentruntime/internal/models/model"
)

// changing is what differs from one run to the next: ids, and times.
var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})`)

// values are the changing values of a request, in the order in which it has them.
type values struct{ list []string }

func placeholder(i int) string { return fmt.Sprintf("{{value-%d}}", i+1) }

// text returns a text as a cassette has it: without what looks like a secret.
func (v *values) text(s string) string { return v.hide(redact.Text(s)) }

// hide returns a text with placeholders. A value that was not there before gets the next one.
func (v *values) hide(s string) string {
	return changing.ReplaceAllStringFunc(s, func(value string) string {
		i := slices.Index(v.list, value)
		if i < 0 {
			i, v.list = len(v.list), append(v.list, value)
		}
		return placeholder(i)
	})
}

// args returns arguments as a cassette has them: as JSON, or as a JSON string where they are none.
func (v *values) args(raw json.RawMessage) json.RawMessage {
	masked, _ := redact.MaskArgs(raw, nil)
	dec := json.NewDecoder(bytes.NewReader(masked))
	dec.UseNumber()
	var tree any
	if !json.Valid(raw) || dec.Decode(&tree) != nil {
		return quote(v.text(string(raw)))
	}
	if _, is := tree.(string); is {
		return quote(v.text(string(raw)))
	}
	out, err := json.Marshal(v.leaves(tree))
	if err != nil {
		return quote(v.text(string(raw)))
	}
	return out
}

// leaves returns a JSON value with its texts as a cassette has them.
func (v *values) leaves(tree any) any {
	switch tree := tree.(type) {
	case string:
		return v.text(tree)
	case []any:
		for i, item := range tree {
			tree[i] = v.leaves(item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			tree[name] = v.leaves(tree[name])
		}
	}
	return tree
}

func quote(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`) // a text is always JSON
	}
	return raw
}

func (v *values) calls(list []model.ToolCall) []model.ToolCall {
	list = slices.Clone(list)
	for i, call := range list {
		list[i] = model.ToolCall{ID: v.hide(call.ID), Name: v.text(call.Name), Args: v.args(call.Args)}
	}
	return list
}

// hideRequest returns the request as a cassette has it.
func (v *values) hideRequest(req model.Request) model.Request {
	req.Instructions, req.Advice = v.text(req.Instructions), v.text(req.Advice)
	req.Messages, req.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
	for i, m := range req.Messages {
		req.Messages[i].Text, req.Messages[i].Calls, req.Messages[i].CallID = v.text(m.Text), v.calls(m.Calls), v.hide(m.CallID)
	}
	for i, t := range req.Tools {
		req.Tools[i].Description = v.text(t.Description)
	}
	return req
}

// hideAnswer returns the answer as a cassette has it, after its request. A value that the request does
// not have stays.
func (v *values) hideAnswer(answer model.Response) model.Response {
	asked := len(v.list)
	answer.Text, answer.Calls = v.text(answer.Text), v.calls(answer.Calls)
	list := slices.Clone(v.list)
	for i := range list[:asked] {
		list[i] = placeholder(i)
	}
	return (&values{list}).show(answer)
}

// show returns an answer with the values in the place of their placeholders.
func (v *values) show(answer model.Response) model.Response {
	pairs := make([]string, 0, 2*len(v.list))
	for i, value := range v.list {
		pairs = append(pairs, placeholder(i), value)
	}
	with := strings.NewReplacer(pairs...)
	answer.Text, answer.Calls = with.Replace(answer.Text), slices.Clone(answer.Calls)
	for i, call := range answer.Calls {
		answer.Calls[i] = model.ToolCall{ID: with.Replace(call.ID), Name: with.Replace(call.Name), Args: json.RawMessage(with.Replace(string(call.Args)))}
	}
	return answer
}

// unquoted returns the calls with arguments as the model has written them.
func unquoted(calls []model.ToolCall) []model.ToolCall {
	for i, call := range calls {
		var text string
		if json.Unmarshal(call.Args, &text) == nil && call.Args[0] == '"' {
			calls[i].Args = json.RawMessage(text)
		}
	}
	return calls
}
