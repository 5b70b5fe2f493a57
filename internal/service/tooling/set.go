package tooling

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/model"
)

// Kind says what a tool does.
type Kind string

// The kinds of tools.
const (
	// CallVerb is a call of a verb: a governed run.
	CallVerb Kind = "verb"
	// SearchVerbs and DescribeVerb look into the verbs that the agent may call; see Toolbox.Answer.
	SearchVerbs  Kind = "search"
	DescribeVerb Kind = "describe"
	// Escalate hands the session to people.
	Escalate Kind = "escalate"
	// Platform is a tool of the service: tool:name.
	Platform Kind = "platform"
	// StartMap starts a Map.
	StartMap Kind = "start_map"
	// AskAgent writes a message to another agent.
	AskAgent Kind = "ask_agent"
)

// Set is what a model is offered in a turn. Stored as JSON with the turn, it judges calls in the same
// way in each process. It is a value: what changes it returns another one.
type Set struct{ s stored }

// stored is a Set as JSON. It is kept with turns, so no name changes.
type stored struct {
	Tools []offered `json:"tools"`
	// Found are verbs that the model may call although it has no definition of them any more.
	Found []string `json:"found,omitempty"`
	// Searches: the agent may call more verbs than it is offered, and looks for them.
	Searches bool `json:"searches,omitempty"`
}

type offered struct {
	Kind Kind       `json:"kind"`
	Tool model.Tool `json:"tool"`
	// Name is that of the verb or of the platform tool, as patterns name it, or what a tool starts.
	Name string `json:"name,omitempty"`
	// Risk and Operation are those of a verb.
	Risk      verb.Risk      `json:"risk,omitempty"`
	Operation verb.Operation `json:"operation,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Set) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &s.s) }

// Tools returns the tools for the request. Their names are those that all makers of models accept.
func (s Set) Tools() []model.Tool {
	tools := make([]model.Tool, len(s.s.Tools))
	for i, t := range s.s.Tools {
		tools[i] = t.Tool
	}
	return tools
}

// Verbs returns the tools as planners read them, but the one that hands over to people. What is no verb
// of a provider reads, unless it starts something.
func (s Set) Verbs() []goalloop.Verb {
	var list []goalloop.Verb
	for _, t := range s.s.Tools {
		v := goalloop.Verb{Name: t.Tool.Name, Description: t.Tool.Description, Parameters: t.Tool.Schema, Risk: string(cmp.Or(t.Risk, verb.RiskLow)), Operation: string(cmp.Or(t.Operation, verb.Read))}
		switch t.Kind {
		case Escalate:
			continue
		case CallVerb:
			v.Name = t.Name
		case StartMap, AskAgent:
			v.Operation = string(verb.Write)
		case SearchVerbs, DescribeVerb, Platform:
		}
		list = append(list, v)
	}
	return list
}

// Searches reports whether the agent may call more verbs than it is offered.
func (s Set) Searches() bool { return s.s.Searches }

// Resolved says what a call of the model means.
type Resolved struct {
	Kind Kind
	// Verb is that of CallVerb.
	Verb verb.Name
	// Tool is the name of a Platform tool: tool:name.
	Tool string
	// Start is what StartMap starts, or whom AskAgent asks.
	Start Start
	// Args are those of the call: a JSON object.
	Args json.RawMessage
}

// Resolve says what a call means. The tool may have its name of the request, or that of the verb. The
// error is VERB_NOT_FOUND where the model was not offered such a tool, and INVALID_ARGS where the
// arguments are not an object: both are for the model to read.
func (s Set) Resolve(call model.ToolCall) (Resolved, error) {
	kind, name := s.called(call.Name)
	r := Resolved{Kind: kind, Args: json.RawMessage(bytes.TrimSpace(call.Args))}
	if kind == "" {
		return r, s.unknown(call.Name)
	}
	if len(r.Args) == 0 {
		r.Args = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(r.Args, &object) != nil || object == nil {
		return r, fault.New(fault.CodeInvalidArgs, "The arguments are not a JSON object.")
	}
	var err error
	switch kind {
	case Platform:
		r.Tool = name
	case StartMap, AskAgent:
		r.Start, err = startOf(name)
	case CallVerb:
		if r.Verb, err = verb.Parse(name); err != nil {
			err = fmt.Errorf("tooling: a stored tool: %w", err)
		}
	case SearchVerbs, DescribeVerb, Escalate:
	}
	return r, err
}

// called returns what a model calls by a name; kind is "" for nothing.
func (s Set) called(by string) (kind Kind, name string) {
	for _, t := range s.s.Tools {
		if t.Tool.Name == by || t.Name != "" && t.Name == by {
			return t.Kind, t.Name
		}
	}
	for _, found := range s.s.Found {
		if found == by || toolName(found) == by {
			return CallVerb, found
		}
	}
	return "", ""
}

func (s Set) unknown(name string) error {
	const most = 80 // of a name that the model made up
	message := fmt.Sprintf("There is no tool %.*q.", most, name)
	if s.s.Searches {
		message += " Look for the verb with " + searchName + ", and call it by the name of its tool."
	}
	var names []string
	for _, t := range s.s.Tools {
		names = append(names, t.Tool.Name)
	}
	return fault.New(fault.CodeVerbNotFound, message+near.Sentence(name[:min(len(name), most)], names))
}

// toolName returns the name of a verb as a tool.
func toolName(name string) string { return strings.Replace(name, ":", "__", 1) }

// size returns how many bytes the definitions take.
func (s Set) size() (n int) {
	for _, t := range s.s.Tools {
		n += sizeOf(t.Tool)
	}
	return n
}

func sizeOf(t model.Tool) int { return len(t.Name) + len(t.Description) + len(t.Schema) }

// mostFound is how many verbs without a definition a model may call.
const mostFound = 200

// with returns the set with a tool more. A tool that is there stays. Where the definitions are over
// the budget then, the verb that was added first loses its definition: if makesRoom, otherwise the
// new one has none. It may be called all the same.
func (s Set) with(t offered, makesRoom bool) Set {
	out := s.clone()
	is := func(one offered) bool { return one.Name == t.Name }
	if i := slices.IndexFunc(out.s.Tools, is); i >= 0 {
		if sizeOf(out.s.Tools[i].Tool) >= sizeOf(t.Tool) || !makesRoom {
			return out
		}
		out.s.Tools = slices.Delete(out.s.Tools, i, i+1) // a fuller definition
	}
	if !makesRoom && (out.size()+sizeOf(t.Tool) > budget || len(out.s.Tools) >= mostTools) {
		return out.found(t.Name)
	}
	out.s.Tools = append(out.s.Tools, t)
	for out.size() > budget || len(out.s.Tools) > mostTools {
		i := slices.IndexFunc(out.s.Tools, func(one offered) bool { return one.Kind == CallVerb })
		if i == len(out.s.Tools)-1 {
			break // only the new one is left
		}
		gone := out.s.Tools[i].Name
		out.s.Tools = slices.Delete(out.s.Tools, i, i+1)
		out = out.found(gone)
	}
	return out
}

// found returns the set with a verb that may be called without a definition.
func (s Set) found(name string) Set {
	out := s.clone()
	out.s.Found = append(slices.DeleteFunc(out.s.Found, func(one string) bool { return one == name }), name)
	out.s.Found = out.s.Found[max(0, len(out.s.Found)-mostFound):]
	return out
}

func (s Set) clone() Set {
	s.s.Tools, s.s.Found = slices.Clone(s.s.Tools), slices.Clone(s.s.Found)
	return s
}
