package argdiff

import (
	"slices"
	"strconv"
)

// shape is what a place says once its references and combinations are put together.
type shape struct {
	types    types
	members  map[string]*node
	required map[string]need
	prefix   []*node
	items    *node // the elements after prefix; nil where any may be there
	rest     *node // the members without a schema of their own; nil likewise, and where there are none
	others   others
}

// others is what a schema says of the members that it does not describe, apart from their schema.
type others uint8

const (
	refused  others = 1 << iota // additionalProperties: false
	leftOver                    // unevaluatedProperties: false, which refuses those that no part allows
	allowed                     // true
)

func othersOf(word string, allows bool) others {
	switch {
	case allows:
		return allowed
	case word == "additionalProperties":
		return refused
	}
	return leftOver
}

// allows reports whether there may be such members.
func (o others) allows() bool { return o&refused == 0 && (o&leftOver == 0 || o&allowed != 0) }

// restOf returns what the members without a schema of their own are; nil where there are none.
func (c *comparison) restOf(s *shape) *node {
	if s.rest != nil || s.types&isObject == 0 || !s.others.allows() {
		return s.rest
	}
	return c.orAnything(nil)
}

// anything returns what allows every value. A node that is being put together counts as it, so that
// one that consists of itself has an end.
func anything() *shape { return &shape{types: isAny} }

// shape returns what a node says.
func (c *comparison) shape(n *node) *shape {
	if n.shape != nil {
		return n.shape
	}
	if *c.left -= placeWork + len(n.members); n.busy || *c.left < 0 {
		return anything()
	}
	n.busy = true
	s := &shape{types: n.types, members: n.members, required: n.required, prefix: n.prefix, items: n.items, rest: n.rest, others: n.others}
	for _, one := range n.all {
		s = c.both(s, c.shape(one))
	}
	for _, group := range n.any {
		s = c.both(s, c.either(group))
	}
	n.busy = false
	n.shape = s
	return s
}

// both returns what two schemas for one value say together.
func (c *comparison) both(a, b *shape) *shape {
	s := &shape{types: a.types & b.types, members: map[string]*node{}, required: map[string]need{}, others: a.others | b.others}
	*c.left -= placeWork + len(a.members) + len(b.members)
	for _, from := range []*shape{a, b} {
		for name, one := range from.members {
			s.members[name] = c.combine(together, s.members[name], one)
		}
		for name, n := range from.required {
			s.required[name] = max(s.required[name], n)
		}
	}
	for i := range max(len(a.prefix), len(b.prefix)) {
		s.prefix = append(s.prefix, c.combine(together, a.element(i), b.element(i)))
	}
	s.items, s.rest = c.combine(together, a.items, b.items), c.combine(together, a.rest, b.rest)
	return s
}

// either returns what schemas say of which one applies.
func (c *comparison) either(group []*node) *shape {
	s := &shape{members: map[string]*node{}, required: map[string]need{}}
	requiredBy := map[string]int{}
	open := false // an alternative may have members that it does not describe
	for _, n := range group {
		one := c.shape(n)
		*c.left -= placeWork + len(one.members)
		s.types |= one.types
		if one.types&isObject != 0 {
			s.others |= one.others
			open = open || one.others&refused == 0
		}
		for name, member := range one.members {
			s.members[name] = c.combine(instead, s.members[name], member)
		}
		for name, n := range one.required {
			if s.required[name] = max(s.required[name], sometimes); n == always {
				requiredBy[name]++
			}
		}
		for i, element := range one.prefix {
			if i == len(s.prefix) {
				s.prefix = append(s.prefix, nil)
			}
			s.prefix[i] = c.combine(instead, s.prefix[i], element)
		}
		s.items, s.rest = c.combine(instead, s.items, one.items), c.combine(instead, s.rest, one.rest)
	}
	if open {
		s.others &^= refused
	}
	for name, n := range requiredBy {
		if n == len(group) {
			s.required[name] = always
		}
	}
	return s
}

// element returns the schema of element i, nil where any may be there.
func (s *shape) element(i int) *node {
	if i < len(s.prefix) {
		return s.prefix[i]
	}
	return s.items
}

// combination says how nodes apply together.
type combination byte

const (
	together combination = '&'
	instead  combination = '|'
)

// combine returns the node of two that apply together, either of which may be nil. The same
// nodes always make the same one, so that the comparison of a schema that refers to itself ends.
func (c *comparison) combine(how combination, a, b *node) *node {
	if a == nil || a == b {
		return b
	}
	if b == nil {
		return a
	}
	parts := append(slices.Clone(a.partsOf(how)), b.partsOf(how)...)
	slices.SortFunc(parts, func(a, b *node) int { return a.id - b.id })
	parts = slices.Compact(parts)
	key := []byte{byte(how)}
	for _, one := range parts {
		key = append(strconv.AppendInt(key, int64(one.id), 36), ' ')
	}
	*c.left -= placeWork + len(key)
	n, known := c.composites[string(key)]
	if !known {
		n = c.node(&node{types: isAny, how: how, parts: parts})
		if how == together {
			n.all = parts
		} else {
			n.any = [][]*node{parts}
		}
		c.composites[string(key)] = n
	}
	return n
}

// partsOf returns what a node is combined of in that way: itself where it is not.
func (n *node) partsOf(how combination) []*node {
	if n.how == how {
		return n.parts
	}
	return []*node{n}
}

// orAnything returns the node, or one that allows every value where it is nil. That is always the same
// one, so that the comparison with a schema that refers to itself ends.
func (c *comparison) orAnything(n *node) *node {
	if n != nil {
		return n
	}
	if c.anything == nil {
		c.anything = c.node(&node{types: isAny})
	}
	return c.anything
}
