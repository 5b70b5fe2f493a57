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
	s := &shape{types: n.types, members: n.members, required: n.required, prefix: n.prefix, items: n.items, rest: n.rest}
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
	s := &shape{types: a.types & b.types, members: map[string]*node{}, required: map[string]need{}}
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
	for _, n := range group {
		one := c.shape(n)
		*c.left -= placeWork + len(one.members)
		s.types |= one.types
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

// orAnything returns the node, or one that allows every value where it is nil.
func (c *comparison) orAnything(n *node) *node {
	if n == nil {
		return c.node(&node{types: isAny})
	}
	return n
}
