package expression

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// dot is the root of a path that begins at ".".
const dot = "."

// path is an expression that does nothing but follow names and positions from a root. Most
// expressions are one. They are followed in the text of the root, which is not decoded: an
// answer of 3 MiB costs a few milliseconds and no memory.
type path struct {
	root  string // the name of the root's variable
	steps []any  // names and positions
}

// pathOf returns the path that an expression is, nil for others.
func pathOf(q *gojq.Query) *path {
	if q.Term == nil || len(q.FuncDefs) > 0 {
		return nil
	}
	p, suffixes := &path{}, q.Term.SuffixList
	switch t := q.Term; {
	case t.Type == gojq.TermTypeIdentity:
		p.root = dot
	case t.Type == gojq.TermTypeIndex: // the first step of .a.b is no suffix
		p.root, suffixes = dot, slices.Concat([]*gojq.Suffix{{Index: t.Index}}, suffixes)
	case t.Type == gojq.TermTypeFunc && len(t.Func.Args) == 0 && strings.HasPrefix(t.Func.Name, prefix) && t.Func.Name != prefix+rootIndex:
		p.root = t.Func.Name
	default:
		return nil
	}
	for _, s := range suffixes {
		if s.Index == nil || s.Index.IsSlice {
			return nil
		}
		if name := nameOf(s); name != "" || isEmptyName(s) {
			p.steps = append(p.steps, name)
			continue
		}
		at, ok := positionOf(s.Index.Start)
		if !ok {
			return nil
		}
		p.steps = append(p.steps, at)
	}
	return p
}

// isEmptyName reports whether a suffix reads the member with the empty name.
func isEmptyName(s *gojq.Suffix) bool {
	return s.Index.Str != nil && s.Index.Str.Queries == nil && s.Index.Str.Str == ""
}

// positionOf returns the whole number that an index is.
func positionOf(q *gojq.Query) (int, bool) {
	if q == nil || q.Term == nil || len(q.FuncDefs) > 0 || len(q.Term.SuffixList) > 0 {
		return 0, false
	}
	t, sign := q.Term, ""
	if t.Type == gojq.TermTypeUnary && t.Unary.Op == gojq.OpSub && len(t.Unary.Term.SuffixList) == 0 {
		t, sign = t.Unary.Term, "-"
	}
	if t.Type != gojq.TermTypeNumber {
		return 0, false
	}
	n, err := strconv.Atoi(sign + t.Number)
	return n, err == nil
}

// follow returns what the path leads to, and false where jq has to say what is wrong or the evaluation
// cannot afford more here.
func (p *path) follow(v *values) (json.RawMessage, bool) {
	r, steps, key := v.roots, p.steps, p.root
	var raw json.RawMessage
	switch p.root {
	case dot:
		raw = r.Dot
	case prefix + rootTrigger:
		raw = r.TriggerData
	case prefix + rootVars:
		raw = r.Vars
	case prefix + rootContext:
		raw = r.Context
	case prefix + rootItem:
		raw = r.Item
	case prefix + rootSteps:
		id := steps[0].(string) //nolint:forcetypeassert // the binder has seen that it is a name
		step, ok := r.Steps[id]
		switch field := steps[1]; {
		case !ok:
		case field == string(Output):
			raw, key = step.Output, outputKey(id)
		case field == string(Error):
			raw, key = step.Error, errorKey(id)
		default:
			return nil, false
		}
		steps = steps[2:]
	default:
		raw = r.Names[p.root[len(prefix):]]
	}
	if len(raw) == 0 {
		return json.RawMessage("null"), true
	}
	found, ok := v.lookup(key, raw, steps)
	if !ok {
		return nil, false
	}
	var compact bytes.Buffer
	if json.Compact(&compact, found) != nil {
		return nil, false
	}
	return compact.Bytes(), true
}
