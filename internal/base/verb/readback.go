package verb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/strictjson"
)

// Limits of a read-back. They keep a plan small; docs/use/catalog-and-providers.md names them.
const (
	maxReadBack = 8 << 10 // bytes of args and of match
	maxEquals   = 16      // places that are compared
)

// ReadBack says how to find out whether a write took effect, after its outcome became
// unknown: call a read of the same provider and compare. It may only prove that the write was
// executed. No match proves nothing, because the effect may come later.
//
// Strings in Args and in Match.Equals may refer to the write's arguments: ${args.order.id}.
// The catalog stores a ReadBack in the verb's plan, so a JSON name is never renamed.
type ReadBack struct {
	// Verb is the name of the read, without the provider.
	Verb string `json:"verb"`
	// Args is the object of the read's arguments; empty means {}.
	Args  json.RawMessage `json:"args,omitempty"`
	Match Match           `json:"match"`
}

// Match says which result of the read proves the effect.
type Match struct {
	// In is the path of a list in the result. One element must then meet all of Equals. Where
	// it is "", the result itself must.
	In string `json:"in,omitempty"`
	// Equals gives the value at each path. A path is names and positions joined by dots.
	Equals map[string]json.RawMessage `json:"equals"`
}

// Check returns what is wrong with the form of a declared read-back, nil if nothing is. It
// cannot say whether the verb exists.
func (r ReadBack) Check() error {
	if !verbPattern.MatchString(r.Verb) {
		return errors.New("verb is not the name of a verb")
	}
	size := len(r.Args) + len(r.Match.In)
	for path, want := range r.Match.Equals {
		if path == "" {
			return errors.New("match.equals has an empty path")
		}
		size += len(path) + len(want)
	}
	switch {
	case len(r.Match.Equals) == 0 || len(r.Match.Equals) > maxEquals:
		return fmt.Errorf("match.equals needs 1 to %d paths", maxEquals)
	case size > maxReadBack:
		return fmt.Errorf("args and match may have at most %d bytes", maxReadBack)
	}
	refs, err := r.References()
	if err != nil {
		return err
	}
	if len(refs) == 0 {
		return errors.New("it refers to no argument of the call, so it cannot tell one call from another")
	}
	return nil
}

// References returns the paths of the arguments that r refers to.
func (r ReadBack) References() ([]string, error) {
	var paths []string
	_, err := r.replace(func(path string) (any, error) {
		paths = append(paths, path)
		return "0", nil
	})
	return paths, err
}

// Resolve returns the read-back of one call: args, the call's arguments, stand where they are
// referred to. It fails where the call lacks such an argument. The result is not to be
// resolved again.
func (r ReadBack) Resolve(args json.RawMessage) (ReadBack, error) {
	root, err := exactjson.Decode(args)
	if err != nil {
		return ReadBack{}, fmt.Errorf("read the arguments of the call: %w", err)
	}
	return r.replace(func(path string) (any, error) {
		if v, ok := at(root, path); ok && v != nil {
			return v, nil
		}
		return nil, fmt.Errorf("the call has no value at args.%s", path)
	})
}

// replace returns r with every reference replaced by what value returns for its path.
func (r ReadBack) replace(value func(path string) (any, error)) (ReadBack, error) {
	out := ReadBack{Verb: r.Verb, Match: Match{In: r.Match.In, Equals: make(map[string]json.RawMessage, len(r.Match.Equals))}}
	if len(r.Args) > 0 {
		args, err := replaced(r.Args, value)
		if err != nil {
			return ReadBack{}, err
		}
		if args[0] != '{' {
			return ReadBack{}, errors.New("args is not an object")
		}
		out.Args = args
	} else {
		out.Args = json.RawMessage("{}")
	}
	for path, want := range r.Match.Equals {
		var err error
		if out.Match.Equals[path], err = replaced(want, value); err != nil {
			return ReadBack{}, err
		}
	}
	return out, nil
}

func replaced(raw json.RawMessage, value func(path string) (any, error)) (json.RawMessage, error) {
	v, err := exactjson.Decode(raw)
	if err != nil {
		return nil, errors.New("a value is not JSON")
	}
	if v, err = walk(v, value); err != nil {
		return nil, err
	}
	return exactjson.Encode(v)
}

// walk replaces the references in all strings of v, not in names.
func walk(v any, value func(path string) (any, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		return expand(v, value)
	case []any:
		for i := range v {
			if v[i], err = walk(v[i], value); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if v[name], err = walk(v[name], value); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// reference is $${, which stands for ${, or an expression. Only args.<path> is one.
var reference = regexp.MustCompile(`\$\$\{|\$\{([^{}]*)\}?`)

// expand replaces the references in one text. A text that is one reference becomes the value
// itself, with its type. Elsewhere the value is written into the text, and must be a string,
// a number or a boolean.
func expand(s string, value func(path string) (any, error)) (any, error) {
	var out strings.Builder
	rest := 0
	for _, m := range reference.FindAllStringSubmatchIndex(s, -1) {
		out.WriteString(s[rest:m[0]])
		rest = m[1]
		if m[2] < 0 {
			out.WriteString("${")
			continue
		}
		path, ok := strings.CutPrefix(strings.TrimSpace(s[m[2]:m[3]]), "args.")
		if !ok || path == "" || s[m[1]-1] != '}' {
			return nil, fmt.Errorf("%q is not a reference: write ${args.name}", s[m[0]:m[1]])
		}
		v, err := value(path)
		switch {
		case err != nil:
			return nil, err
		case m[0] == 0 && m[1] == len(s):
			return v, nil
		}
		switch v := v.(type) {
		case string:
			out.WriteString(v)
		case json.Number:
			out.WriteString(v.String())
		case bool:
			out.WriteString(strconv.FormatBool(v))
		default:
			return nil, fmt.Errorf("args.%s is a list or an object and cannot stand within a text", path)
		}
	}
	return out.String() + s[rest:], nil
}

// Matches reports whether the result of the read proves the effect. Numbers are compared
// exactly: 1 and 1.0 are equal, 1 and "1" are not.
func (m Match) Matches(result json.RawMessage) bool {
	root, err := exactjson.Decode(result)
	if err != nil || len(m.Equals) == 0 {
		return false
	}
	if m.In == "" {
		return m.equal(root)
	}
	list, _ := at(root, m.In)
	items, _ := list.([]any)
	return slices.ContainsFunc(items, m.equal)
}

func (m Match) equal(v any) bool {
	for path, want := range m.Equals {
		got, ok := at(v, path)
		if !ok || !same(got, want) {
			return false
		}
	}
	return true
}

func same(got any, want json.RawMessage) bool {
	raw, err := exactjson.Encode(got)
	if err != nil {
		return false
	}
	a, errA := strictjson.Canonical(raw)
	b, errB := strictjson.Canonical(want)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// at returns the value at a path of names and positions joined by dots.
func at(v any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch parent := v.(type) {
		case map[string]any:
			next, ok := parent[name]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(parent) {
				return nil, false
			}
			v = parent[n]
		default:
			return nil, false
		}
	}
	return v, true
}
