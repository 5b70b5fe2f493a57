// Package argdiff compares two JSON Schemas of the arguments of a verb: which arguments are
// new, gone, of another type or newly required, at any depth. The catalog asks it when a
// document is imported again. It judges no values; internal/base/argschema does.
package argdiff

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"agentruntime/internal/base/fault"
)

// Kind is what is different about an argument. Reports and audit records store it.
type Kind string

// The kinds.
const (
	Removed  Kind = "argument_removed"
	Retyped  Kind = "argument_retyped"
	Required Kind = "argument_required" // it was optional, or is new
	Added    Kind = "argument_added"    // and optional
	Optional Kind = "argument_optional" // it was required
)

// Breaks reports whether a call, a condition or a prompt that was written for the schema before
// may mean something else now.
func (k Kind) Breaks() bool { return k == Removed || k == Retyped || k == Required }

// Difference is one argument that is different.
type Difference struct {
	Kind Kind
	// Pointer is the JSON Pointer of the argument. A * stands for every element of an array, and
	// for every member that has no schema of its own.
	Pointer string
	// Before and After say its type, and whether it is required where that is the difference: "required
	// string". They are "" where there is no such argument.
	Before, After string
}

// Result is all that is different.
type Result struct {
	// List has the first differences, those that break first.
	List []Difference
	// Total is how many there are, and Breaking how many of them break.
	Total, Breaking int
	// Incomplete: a schema cannot be read, or the work was too much. There may be more.
	Incomplete bool
}

// Work in units of left: that of one place, of one byte of a schema, and of one byte of a pointer.
const (
	placeWork = 10
	byteWork  = 1
)

// Compare compares two schemas. List has at most so many entries. The work is taken off what is
// left, in steps of about 20 ns; without any the result is incomplete.
func Compare(before, now json.RawMessage, most int, left *int) Result {
	c := &comparison{most: most, left: left, composites: map[string]*node{}, seen: map[[2]int]bool{}}
	*left -= byteWork * (len(before) + len(now))
	if *left < 0 {
		return Result{Incomplete: true}
	}
	was, okWas := c.read(before)
	is, okIs := c.read(now)
	if !okWas || !okIs {
		return Result{Incomplete: true}
	}
	c.follow("", was, is)
	for len(c.queue) > 0 && *left >= 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.members(next)
		c.elements(next)
	}
	r := Result{List: append(c.breaking, c.others...), Breaking: c.broken, Total: c.total, Incomplete: *left < 0}
	r.List = r.List[:min(len(r.List), most)]
	return r
}

// comparison follows two schemas together, from place to place.
type comparison struct {
	most       int
	left       *int
	ids        int
	composites map[string]*node
	anything   *node // see orAnything
	seen       map[[2]int]bool
	queue      []pair

	breaking, others []Difference
	total, broken    int
}

// pair has what both schemas say about one place.
type pair struct {
	pointer string
	was, is *shape
}

func (c *comparison) add(d Difference) {
	c.total++
	list := &c.others
	if d.Kind.Breaks() {
		c.broken++
		list = &c.breaking
	}
	if len(*list) < c.most {
		*list = append(*list, d)
	}
}

// follow notes a place to be compared, once.
func (c *comparison) follow(pointer string, was, is *node) {
	*c.left -= placeWork + len(pointer)
	if id := [2]int{was.id, is.id}; !c.seen[id] {
		c.seen[id] = true
		c.queue = append(c.queue, pair{pointer, c.shape(was), c.shape(is)})
	}
}

// members compares the members of an object: each that a schema names, and the rest. A schema may
// require a member that it does not describe.
func (c *comparison) members(p pair) {
	names := map[string]bool{}
	for _, s := range []*shape{p.was, p.is} {
		*c.left -= placeWork + len(s.required)
		for name := range s.members {
			names[name] = true
		}
		for name := range s.required {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if *c.left < 0 {
			return
		}
		c.member(p, name)
	}
	if p.was.rest == nil && p.is.rest == nil {
		return
	}
	if was, is := c.restOf(p.was), c.restOf(p.is); was != nil && is != nil {
		c.value(p.pointer+"/*", was, is)
	}
}

func (c *comparison) member(p pair, name string) {
	pointer := p.pointer + "/" + fault.PointerToken(name)
	*c.left -= placeWork + len(pointer)
	was, had := p.was.members[name]
	is, has := p.is.members[name]
	needed, needs := p.was.required[name], p.is.required[name]
	switch {
	case !had && !has:
		c.need(pointer, needed, needs, c.restTypes(p.was), c.restTypes(p.is))
	case !has:
		c.add(Difference{Removed, pointer, c.shape(was).types.String(), ""})
	case !had && needs == always:
		c.add(Difference{Required, pointer, "", "required " + c.shape(is).types.String()})
	case !had:
		c.add(Difference{Added, pointer, "", "optional " + c.shape(is).types.String()})
	default:
		c.need(pointer, needed, needs, c.shape(was).types, c.shape(is).types)
		c.value(pointer, was, is)
	}
}

// need compares whether an object has to have a member.
func (c *comparison) need(pointer string, before, now need, types, typesNow types) {
	switch {
	case now > before:
		c.add(Difference{Required, pointer, before.String() + types.String(), now.String() + typesNow.String()})
	case now < before:
		c.add(Difference{Optional, pointer, before.String() + types.String(), now.String() + typesNow.String()})
	}
}

// restTypes returns the types of a member that has no schema of its own.
func (c *comparison) restTypes(s *shape) types {
	if s.rest == nil {
		return isAny
	}
	return c.shape(s.rest).types
}

// value compares a value that both schemas have. What is in a value of another type is not
// compared.
func (c *comparison) value(pointer string, was, is *node) {
	before, now := c.shape(was).types, c.shape(is).types
	if before != now {
		c.add(Difference{Retyped, pointer, before.String(), now.String()})
		return
	}
	c.follow(pointer, was, is)
}

// elements compares the elements of an array: each that a schema has for itself, and the rest.
func (c *comparison) elements(p pair) {
	at := func(s *shape, i int) *node {
		if i < len(s.prefix) {
			return s.prefix[i]
		}
		return s.items
	}
	for i := range max(len(p.was.prefix), len(p.is.prefix)) {
		if was, is := at(p.was, i), at(p.is, i); was != nil && is != nil && *c.left >= 0 {
			c.value(p.pointer+"/"+strconv.Itoa(i), was, is)
		}
	}
	if was, is := p.was.items, p.is.items; was != nil || is != nil {
		c.value(p.pointer+"/*", c.orAnything(was), c.orAnything(is))
	}
}
