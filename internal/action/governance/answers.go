package governance

import (
	"encoding/json"
	"slices"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/schemagraph"
)

// FieldsOfLookup returns the fields of the conditions that are of the look-up, each once, by their
// places.
func FieldsOfLookup(p Policy, name string) map[string]string {
	fields, seen := map[string]string{}, map[string]bool{}
	for place, c := range Leaves(p.Conditions) {
		for _, one := range []string{c.Field, c.ValueField} {
			if f, problem := readField(one, ""); problem == nil && f.from == ofLookup && f.lookupName == name && !seen[one] {
				fields[place], seen[one] = one, true
			}
		}
	}
	return fields
}

// answerWork bounds the search for one field in the schema of an answer, in places looked at.
const answerWork = 20_000

// Unlisted reports whether a field of a look-up leads to a member that the schema of the answer does
// not list. It is false wherever the answer may have it: where the schema lists no members, opens
// them (additionalProperties) or is opaque, and where the search takes too much work. A provider may
// send more than it has described, so this is no proof.
func Unlisted(fieldName string, answer json.RawMessage) bool {
	f, problem := readField(fieldName, "")
	root, err := exactjson.Decode(answer)
	if problem != nil || f.from != ofLookup || err != nil {
		return false
	}
	s := answerSearch{root: root, left: answerWork}
	if s.lists(root, f.path, true) {
		return false
	}
	// A result that is no object is the member data of one.
	return s.isObject(root) || f.path[0].name != "data" || !s.lists(root, f.path[1:], false)
}

// answerSearch looks for fields in the schema of an answer.
type answerSearch struct {
	root any
	left int // places that may still be looked at
}

// lists reports whether a value of the schema may have the path. object says that the value is one:
// otherwise a name stands for that member of each element of an array.
func (s *answerSearch) lists(schema any, path []segment, object bool) bool {
	n, is := schema.(map[string]any)
	if s.left--; s.left < 0 || len(path) == 0 || !is || n[argschema.Opaque] == true {
		return schema != false
	}
	members, _ := n["properties"].(map[string]any)
	for name, member := range members {
		if s.left--; schemagraph.Fold(name) == path[0].folded && s.lists(member, path[1:], false) {
			return true
		}
	}
	if items, has := n["items"]; has && !object {
		if s.lists(items, path, false) || path[0].index >= 0 && s.lists(items, path[1:], false) {
			return true
		}
	}
	for _, same := range s.inPlace(n, "allOf", "anyOf", "oneOf") {
		if s.lists(same, path, object) {
			return true
		}
	}
	return false
}

// isObject reports whether the schema says that a value is an object and nothing else.
func (s *answerSearch) isObject(schema any) bool {
	n, is := schema.(map[string]any)
	switch s.left--; {
	case s.left < 0 || !is:
		return false
	case n["type"] != nil:
		return n["type"] == "object"
	case n["properties"] != nil:
		return true
	}
	return slices.ContainsFunc(s.inPlace(n, "allOf"), s.isObject)
}

// inPlace returns the schemas of the same value: those under the words, and the one referred to.
func (s *answerSearch) inPlace(n map[string]any, words ...string) (list []any) {
	for _, word := range words {
		some, _ := n[word].([]any)
		list = append(list, some...)
	}
	if ref, _ := n["$ref"].(string); ref != "" {
		name, _ := strings.CutPrefix(ref, "#/$defs/")
		root, _ := s.root.(map[string]any)
		parts, _ := root["$defs"].(map[string]any)
		list = append(list, parts[name])
	}
	return list
}
