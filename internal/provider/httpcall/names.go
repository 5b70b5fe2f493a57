package httpcall

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

// names keeps which argument writes which name, so that no argument gives a second value to a
// name that something else has. Policies judge arguments by their own names: a member of a
// free-form object that the provider takes for another argument would pass unjudged.
//
// Names of the query and of a form are in one namespace, because many servers merge them.
type names struct {
	whole map[string][]string // a name as servers read it → its owners
	above map[string][]string // what stands before a [ or . of a name → its owners
	flat  map[string][]string // a name without brackets, as PHP reads it → its owners
}

func newNames() *names {
	return &names{whole: map[string][]string{}, above: map[string][]string{}, flat: map[string][]string{}}
}

// reserve notes that owner has the name.
func (n *names) reserve(name, owner string) {
	parts := httpfield.NameParts(name)
	for i := 1; i < len(parts); i++ {
		addOwner(n.above, strings.Join(parts[:i], "["), owner)
	}
	addOwner(n.whole, strings.Join(parts, "["), owner)
	addOwner(n.flat, httpfield.FlatName(name), owner)
}

// addOwner keeps two owners of a name at most: that there is another one is all that counts.
func addOwner(m map[string][]string, key, owner string) {
	if have := m[key]; len(have) < 2 && !slices.Contains(have, owner) {
		m[key] = append(have, owner)
	}
}

// taken reports whether a server may take the name for one of another owner: the same name, a
// part of it (a and a[b]), or the whole that it is a part of.
func (n *names) taken(name, owner string) bool {
	others := func(owners []string) bool {
		return slices.ContainsFunc(owners, func(o string) bool { return o != owner })
	}
	parts := httpfield.NameParts(name)
	for i := 1; i <= len(parts); i++ {
		if others(n.whole[strings.Join(parts[:i], "[")]) {
			return true
		}
	}
	return others(n.above[strings.Join(parts, "[")]) || others(n.flat[httpfield.FlatName(name)])
}

// written is a name that an argument writes, for the check against what the credential sets.
type written struct {
	in, name string
	arg      string // JSON pointer below /args
}

// claim checks a name that is not the document's and notes it. pointer is where in args it
// stands.
func (b *builder) claim(in, name, pointer string) error {
	if in == httpplan.InQuery && httpfield.ChoosesMethod(name) {
		return refusedName(pointer, "would choose another method")
	}
	if b.room.take(len(name) + len(pointer)); b.room.left < 0 {
		return b.room.check()
	}
	n := b.namesOf(in)
	if n.taken(name, pointer) {
		return refusedName(pointer, "has the name of another parameter")
	}
	if in == httpplan.InQuery && b.inJSON(name) {
		return refusedName(pointer, "has the name of a member of the body")
	}
	n.reserve(name, pointer)
	b.note(in, name, pointer)
	return nil
}

// refusedName is an INVALID_ARGS for a name within an argument.
func refusedName(pointer, message string) error {
	f := fault.New(fault.CodeInvalidArgs, "")
	f.Details = []fault.Detail{{Path: "/args/" + pointer, Rule: "name_taken", Message: message}}
	return f
}

// note keeps a name for Apply.
func (b *builder) note(in, name, pointer string) {
	b.written = append(b.written, written{in: in, name: name, arg: pointer})
}

// namesOf returns the names of a place, with those of the document. They are collected when
// an argument first chooses a name itself; most calls never do.
func (b *builder) namesOf(in string) *names {
	if n := b.names[in]; n != nil {
		return n
	}
	n := newNames()
	for _, p := range b.plan.Params {
		if p.In == in && (in != httpplan.InPath || p.Style == httpplan.StyleMatrix) {
			n.reserve(p.Wire(), fault.PointerToken(p.Arg))
		}
	}
	if in == httpplan.InQuery {
		for _, name := range queryNames(b.plan.Query) {
			n.reserve(name, "")
		}
		if body := b.plan.Body; body != nil {
			for _, name := range body.Names {
				n.reserve(name, b.fieldPointer(name))
			}
		}
	}
	b.names[in] = n
	return n
}

// inJSON reports whether the JSON body has a member that a server may take for the name: some
// merge the query with the body, and let the query count.
func (b *builder) inJSON(name string) bool {
	return slices.ContainsFunc(b.members(), func(member string) bool { return httpfield.Overlap(member, name) })
}

// members returns the names of the members of a JSON body.
func (b *builder) members() []string {
	body := b.plan.Body
	if body == nil || body.Kind != httpplan.BodyJSON {
		return nil
	}
	if body.Arg == "" {
		return b.bodyFields()
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(b.values[body.Arg], &object) != nil {
		return nil // no object, so there are no members
	}
	return slices.Sorted(maps.Keys(object))
}

// method refuses a member of a JSON body that would choose another method, unless the
// document declares it: some frameworks read it there too.
func (b *builder) method() error {
	for _, name := range b.members() {
		if httpfield.ChoosesMethod(name) && !slices.Contains(b.plan.Body.Names, name) {
			return refusedName(b.fieldPointer(name), "would choose another method")
		}
	}
	return nil
}

// fieldPointer returns where in args the field of a form stands.
func (b *builder) fieldPointer(name string) string {
	if arg := b.plan.Body.Arg; arg != "" {
		return fault.PointerToken(arg) + "/" + fault.PointerToken(name)
	}
	return fault.PointerToken(name)
}

// queryNames returns the decoded names of a raw query.
func queryNames(query string) []string {
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// param checks the names that a declared parameter writes.
func (b *builder) param(p httpplan.Param, v any) error {
	pointer := fault.PointerToken(p.Arg)
	switch {
	case p.In == httpplan.InHeader && httpfield.ForbiddenArg(p.Wire()):
		return refusedName(pointer, "is a header that is not the caller's to set")
	case p.In == httpplan.InQuery && b.plan.Query != "" && b.inTemplate(p.Wire()):
		return refusedName(pointer, "has a value that the verb sets")
	}
	if err := separable(pointer, p, v); err != nil {
		return err
	}
	return b.writes(p.In, p.Wire(), pointer, p.Style, p.Explode, true, v)
}

// separable refuses a value whose items or members a server could not tell apart, because one of
// them has the text that separates them. pointer is where in args the value stands.
func separable(pointer string, p httpplan.Param, v any) error {
	sep, encoded := p.Separator()
	refuse := func(at string) error {
		f := fault.New(fault.CodeInvalidArgs, "")
		f.Details = []fault.Detail{{Path: "/args/" + pointer + "/" + at, Rule: "separator", Message: fmt.Sprintf("must not have %q, which separates the values of this argument: the provider would read another value", sep)}}
		return f
	}
	if sep == "" {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range keys(v) {
			if has(name, sep, true) || has(v[name], sep, true) {
				return refuse(fault.PointerToken(name))
			}
		}
	case []any:
		for i, e := range v {
			if !encoded && has(e, sep, false) {
				return refuse(strconv.Itoa(i))
			}
		}
	}
	return nil
}

// has reports whether the text of a value has the separator. A list or an object is written as JSON,
// whose own commas count. decoded says that an encoded separator counts too.
func has(v any, sep string, decoded bool) bool {
	switch v := v.(type) {
	case string:
		if decoded {
			v = httpfield.Decoded(v)
		}
		return strings.Contains(v, sep)
	case json.Number:
		return strings.Contains(v.String(), sep)
	case []any:
		return sep == "," && len(v) > 1 || slices.ContainsFunc(v, func(e any) bool { return has(e, sep, decoded) })
	case map[string]any:
		for name, e := range v {
			if has(name, sep, decoded) || has(e, sep, decoded) {
				return true
			}
		}
		return sep == "," && len(v) > 1
	}
	return false
}

// inTemplate reports whether the verb's own query has the name.
func (b *builder) inTemplate(name string) bool {
	return slices.ContainsFunc(queryNames(b.plan.Query), func(fixed string) bool { return httpfield.Overlap(fixed, name) })
}

// field checks the names that a field of a form writes.
func (b *builder) field(name string, enc httpplan.Encoding, v any) error {
	as := httpplan.Param{In: httpplan.InQuery, Style: enc.Style, Explode: enc.Explode, Reserved: enc.Reserved}
	if err := separable(b.fieldPointer(name), as, v); err != nil {
		return err
	}
	declared := slices.Contains(b.plan.Body.Names, name)
	return b.writes(httpplan.InQuery, name, b.fieldPointer(name), enc.Style, enc.Explode, declared, v)
}

// writes checks the names that a value writes. declared says that wire is the document's.
func (b *builder) writes(in, wire, pointer, style string, explode, declared bool, v any) error {
	object, isObject := v.(map[string]any)
	if isObject && explode && (style == httpplan.StyleForm || style == httpplan.StyleMatrix || style == httpplan.StyleSpace || style == httpplan.StylePipe || style == httpplan.StyleTab) {
		for _, name := range keys(object) {
			if err := b.claim(in, name, pointer+"/"+fault.PointerToken(name)); err != nil {
				return err
			}
		}
		return nil
	}
	if style == httpplan.StyleDeep {
		if err := b.deep(in, wire, pointer, pointer, v); err != nil {
			return err
		}
	}
	if declared {
		b.note(in, wire, pointer)
		return nil
	}
	return b.claim(in, wire, pointer)
}

// deep refuses members of a deepObject whose names lead out of their place, or into the place
// of another parameter (page[size] beside page). owner is the argument.
func (b *builder) deep(in, wire, owner, pointer string, v any) error {
	if b.room.take(len(wire) + len(pointer)); b.room.left < 0 {
		return b.room.check()
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := b.deep(in, wire+"[]", owner, pointer, e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range keys(v) {
			full, at := wire+"["+name+"]", pointer+"/"+fault.PointerToken(name)
			switch {
			case strings.ContainsAny(name, "[]"):
				return refusedName(at, "must not have a bracket in its name")
			case b.namesOf(in).taken(full, owner):
				return refusedName(at, "has the name of another parameter")
			}
			if err := b.deep(in, full, owner, at, v[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// leavesSecrets returns an INVALID_ARGS where an argument wrote a name under which calls of the
// verb may send a secret, also where this one sends another.
func (r *Request) leavesSecrets(security verb.Security) error {
	for _, alternative := range security {
		for _, s := range alternative {
			if s.Wire == "" {
				continue
			}
			if err := r.refuses(s.In, s.Wire); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuses returns an INVALID_ARGS where an argument wrote a name that the credential sets.
func (r *Request) refuses(in, name string) error {
	for _, w := range r.written {
		same := w.in == in && httpfield.Overlap(w.name, name)
		if in == httpplan.InHeader {
			same = w.in == in && httpfield.Fold(w.name) == httpfield.Fold(name)
		}
		if same {
			return refusedName(w.arg, "has the name that the credential is sent under")
		}
	}
	return nil
}
