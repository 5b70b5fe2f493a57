package yamljson

import (
	"go.yaml.in/yaml/v4"
)

// mergeKey is the name of YAML 1.1 that puts the members of other objects into one.
const mergeKey = "<<"

// member is a name with its value, of an object or of one that is merged into it.
type member struct {
	key, value *yaml.Node
	merged     bool
}

func (r *reader) object(n *yaml.Node, depth int) {
	members, ok := r.members(n)
	if !ok {
		return
	}
	r.out = append(r.out, '{')
	for i, m := range members {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.text(m.key.Value)
		r.out = append(r.out, ':')
		r.path = append(r.path, m.key.Value)
		r.value(m.value, depth+1, m.merged)
		if r.stopped {
			return
		}
		r.path = r.path[:len(r.path)-1]
	}
	r.out = append(r.out, '}')
}

// members returns the members of an object in their order, those that it merges last. Its own
// count before merged ones, and of merged objects the first.
func (r *reader) members(n *yaml.Node) (out []member, ok bool) {
	if !r.spend(visitWork * len(n.Content) / 2) {
		return nil, false
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := r.name(n.Content[i])
		switch {
		case key == nil:
			return nil, false
		case key.Value == mergeKey && key.Style&quotedStyles == 0:
			if !r.Full {
				r.refuse(key, "merge keys are not allowed. Write the members again")
				return nil, false
			}
			merges = append(merges, n.Content[i+1])
		default:
			out = append(out, member{key: key, value: n.Content[i+1]})
		}
	}
	if !r.Full {
		return out, true
	}
	if len(merges) == 0 && len(out) == 1 {
		return out, true
	}
	have := make(map[string]bool, len(out))
	for _, m := range out {
		if have[m.key.Value] {
			r.refuse(m.key, "has the name "+clip(m.key.Value)+" twice")
			return nil, false
		}
		have[m.key.Value] = true
	}
	for _, value := range merges {
		if out, ok = r.merge(out, have, value); !ok {
			return nil, false
		}
	}
	return out, true
}

// name returns the scalar that is a member's name, nil where it is refused. A number and a
// boolean are names as they are written: 200, true.
func (r *reader) name(key *yaml.Node) *yaml.Node {
	if r.Full && key.Kind == yaml.AliasNode && key.Alias != nil {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode || (key.Anchor != "" && !r.Full) || !r.allowsTag(key) {
		r.refuse(key, "a name must be a plain text")
		return nil
	}
	return key
}

// merge adds the members of a value that an object merges: an object, or a list of objects.
func (r *reader) merge(out []member, have map[string]bool, value *yaml.Node) ([]member, bool) {
	r.line = value.Line
	if !r.spend(mergeWork) {
		return nil, false
	}
	value, leave := r.enter(value)
	if value == nil {
		return nil, false
	}
	defer leave()
	switch value.Kind {
	case yaml.MappingNode:
		list, ok := r.members(value)
		if !ok {
			return nil, false
		}
		for _, m := range list {
			if !r.spend(mergeWork + len(m.key.Value)/nameBytesPerWork) {
				return nil, false
			}
			if !have[m.key.Value] {
				have[m.key.Value] = true
				m.merged = true
				out = append(out, m)
			}
		}
		return out, true
	case yaml.SequenceNode:
		for _, item := range value.Content {
			var ok bool
			if out, ok = r.merge(out, have, item); !ok {
				return nil, false
			}
		}
		return out, true
	default:
		r.refuse(value, "merges what is no object")
		return nil, false
	}
}
