package mapdef

import (
	"encoding/json"
	"slices"
	"time"

	"agentruntime/internal/base/exactjson"
)

// InputFaults returns what is wrong with a value that takes the place of the one with which the step does
// its work: of a verb step its arguments, of a type with several such members an object of them. It judges
// the value as Read and Check judge a constant of a definition, and knows no expressions. Paths begin at
// the value. The caller knows which steps have such a value.
func (s *Step) InputFaults(input json.RawMessage) []Fault {
	f := &faults{}
	n, err := exactjson.Tree(input)
	if err != nil {
		f.add("", "syntax", "is not JSON")
		return f.list
	}
	switch do := s.Do.(type) {
	case *DoVerb, *DoMap, *DoEmit:
		f.object(n, "")
	case *DoForeach:
		f.array(n)
	case *DoWait:
		f.waitInput(do, n)
	case *DoEscalate:
		fieldOf(TypeEscalate.fields(), "reason").shape.check(n, "", f)
	case *DoApproval:
		n = withoutNone(n, "payload")
		f.members(n, TypeApproval.fields(), "title", "payload")
		if payload, given := n.Get("payload"); given {
			f.object(payload, "/payload")
		}
	case *DoRaise:
		f.members(withoutNone(n, "title", "detail"), fieldOf(TypeRaise.fields(), "error").shape.fields, "title", "detail")
	case *DoAgent:
		f.members(n, TypeAgent.fields(), "goal")
	case *DoExtract, *DoClassify, *DoSummarize:
		f.members(n, do.Type().fields(), "input")
	case *DoReason:
		f.members(n, TypeReason.fields(), "question", "context")
	default: // transform, validate and return take anything
	}
	return f.list
}

func (f *faults) object(n exactjson.Node, path string) {
	if n.Kind != exactjson.ObjectNode {
		f.add(path, ruleType, "must be an object")
	}
}

// array checks the items of a foreach.
func (f *faults) array(n exactjson.Node) {
	switch {
	case n.Kind != exactjson.ArrayNode:
		f.add("", ruleType, "must be an array")
	case len(n.Items) > MaxItems:
		f.addf("", "maxItems", "must have at most %d items", MaxItems)
	}
}

func (f *faults) waitInput(do *DoWait, n exactjson.Node) {
	switch {
	case do.Event != nil:
		template("correlate", "").shape.check(n, "", f)
	case !do.For.IsZero():
		duration("for", "").shape.check(n, "", f)
	case n.Kind != exactjson.TextNode:
		f.add("", ruleType, "must be a text")
	default:
		if _, err := time.Parse(time.RFC3339, n.Text); err != nil {
			f.add("", "format", "must be a time such as 2026-12-31T18:00:00Z")
		}
	}
}

// members checks an object of some members of a step.
func (f *faults) members(n exactjson.Node, of []field, names ...string) {
	var fields []field
	for _, name := range names {
		fields = append(fields, fieldOf(of, name))
	}
	shape{kind: objectShape, fields: fields}.check(n, "", f)
}

func fieldOf(fields []field, name string) field {
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.name == name })]
}

// withoutNone returns the object without those of the members that an input has in the place of what its
// step leaves out: null, and an empty text.
func withoutNone(n exactjson.Node, names ...string) exactjson.Node {
	n.Members = slices.DeleteFunc(slices.Clone(n.Members), func(m exactjson.Field) bool {
		return slices.Contains(names, m.Name) && (m.Value.Kind == exactjson.NullNode || m.Value.Kind == exactjson.TextNode && m.Value.Text == "")
	})
	return n
}
