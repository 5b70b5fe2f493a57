package redact

import (
	"encoding/json"
	"strconv"

	"agentruntime/internal/base/schemagraph"
)

// Unmasks reports whether a value that is masked because of a mark in the schema before could
// be shown under the schema now. It follows the marks as Mask does. Where it cannot tell, as for
// expressions of patternProperties that differ, it says so too. Values that are masked because
// of a name or as a card number do not count.
//
// left is how much work there may be, in steps of about 20 ns; the work done is taken off. Once
// it is negative the answer means nothing. The reading of the schemas is not counted.
func Unmasks(before, now json.RawMessage, left *int) bool {
	had := NewMasker(before)
	if had.root == nil && !had.blind {
		return false
	}
	has := NewMasker(now)
	if has.blind || had.blind {
		return !has.blind
	}
	c := comparison{left: left, ids: map[*schemagraph.Node]int{}, seen: map[string]bool{}}
	var was, is schemagraph.Set
	was.AddLive(had.root)
	is.AddLive(has.root)
	c.meet(&was, &is)
	for len(c.queue) > 0 && !c.shown && *left >= 0 {
		next := c.queue[len(c.queue)-1]
		c.queue = c.queue[:len(c.queue)-1]
		c.members(next)
		c.elements(next)
	}
	return c.shown
}

// pair has what two schemas say about one place.
type pair struct{ was, is []*schemagraph.Node }

// comparison follows two schemas together, from place to place.
type comparison struct {
	left  *int
	ids   map[*schemagraph.Node]int
	seen  map[string]bool
	queue []pair
	shown bool // something that was hidden
}

// meet compares a place, and notes it where there is something to follow.
func (c *comparison) meet(before, now *schemagraph.Set) {
	var was, is scope
	was.take(before)
	is.take(now)
	*c.left -= 1 + len(was.nodes) + len(is.nodes)
	if is.hide || c.shown {
		return
	}
	if was.hide || was.namesHidden() && !is.namesHidden() {
		c.shown = true
		return
	}
	if len(was.nodes) == 0 {
		return
	}
	p := pair{was.nodes, is.nodes}
	if id := c.id(p); !c.seen[id] {
		c.seen[id] = true
		c.queue = append(c.queue, p)
	}
}

// id names a pair.
func (c *comparison) id(p pair) string {
	var id []byte
	for _, nodes := range [][]*schemagraph.Node{p.was, p.is} {
		for _, n := range nodes {
			if _, known := c.ids[n]; !known {
				c.ids[n] = len(c.ids)
			}
			id = append(strconv.AppendInt(id, int64(c.ids[n]), 36), ' ')
		}
		id = append(id, '|')
	}
	return string(id)
}

// members compares the members of an object: each that a schema names, and the rest.
func (c *comparison) members(p pair) {
	names, expressions := map[string]bool{}, map[string]bool{"": true}
	for _, nodes := range [][]*schemagraph.Node{p.was, p.is} {
		for _, n := range nodes {
			for name := range n.Properties {
				names[name] = true
			}
		}
	}
	for _, n := range p.was {
		for _, one := range n.Patterns {
			if one.Expression != nil {
				expressions[one.Expression.String()] = true
			}
		}
	}
	for name := range names {
		var was, is schemagraph.Set
		if !memberOf(p.was, name, &was, c.left) || !memberOf(p.is, name, &is, c.left) {
			return
		}
		c.meet(&was, &is)
		// The same name in another case: an expression need not fit it.
		was, is = schemagraph.Set{}, schemagraph.Set{}
		c.other(p.was, name, "", &was)
		c.other(p.is, name, "", &is)
		c.meet(&was, &is)
	}
	for expression := range expressions {
		var was, is schemagraph.Set
		c.other(p.was, "", expression, &was)
		c.other(p.is, "", expression, &is)
		c.meet(&was, &is)
	}
}

// other adds the live schemas of a member that no schema names as it is written: those of name
// in another case unless it is "", and those of one expression of patternProperties.
func (c *comparison) other(nodes []*schemagraph.Node, name, expression string, to *schemagraph.Set) {
	for _, n := range nodes {
		if name != "" {
			for _, p := range n.Secrets(name) {
				to.Add(p)
			}
		}
		for _, p := range n.Patterns {
			if p.Expression == nil || p.Expression.String() == expression {
				to.AddLive(p.Node)
			}
		}
		*c.left -= 1 + len(n.Patterns)
	}
}

// elements compares the elements of an array: each that a schema has for itself, and the rest.
func (c *comparison) elements(p pair) {
	most := 0
	for _, nodes := range [][]*schemagraph.Node{p.was, p.is} {
		for _, n := range nodes {
			most = max(most, len(n.Prefix))
		}
	}
	for i := 0; i <= most && *c.left >= 0; i++ {
		var was, is schemagraph.Set
		was.Over = !elementOf(p.was, i, &was) || was.Over
		is.Over = !elementOf(p.is, i, &is) || is.Over
		*c.left -= len(p.was) + len(p.is)
		c.meet(&was, &is)
	}
}
