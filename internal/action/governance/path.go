package governance

import (
	"errors"
	"strings"

	"agentruntime/internal/base/schemagraph"
)

// Limits of a path.
const (
	maxPath     = 1024 // bytes
	maxSegments = 64
)

// segment is one step of a path: the name of a member, or the index of an element.
type segment struct {
	name   string
	folded string // schemagraph.Fold of the name
	index  int    // -1 where name is no index
}

// parsePath splits the path of an argument (without "args.") at its dots. After a backslash
// a dot or backslash is part of the name: args.a\.b is the member "a.b". The errors never
// repeat the path.
func parsePath(path string) ([]segment, error) {
	if len(path) > maxPath {
		return nil, errors.New("is too long")
	}
	var list []segment
	var name strings.Builder
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path) || path[i] == '.':
			if name.Len() == 0 || len(list) == maxSegments {
				return nil, errPath
			}
			list = append(list, segment{name.String(), schemagraph.Fold(name.String()), elementIndex(name.String())})
			name.Reset()
		case path[i] == '\\':
			if i++; i == len(path) || (path[i] != '.' && path[i] != '\\') {
				return nil, errors.New(`has a backslash that is not before a dot or a backslash`)
			}
			name.WriteByte(path[i])
		default:
			name.WriteByte(path[i])
		}
	}
	return list, nil
}

// elementIndex returns the index that name is, -1 for anything else.
func elementIndex(name string) int {
	if len(name) > 9 || (len(name) > 1 && name[0] == '0') {
		return -1
	}
	n := 0
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// each calls f for every place that the path leads to in the document, from value i on.
// There may be several: where the path has a name and the document an array, it continues
// in each element; and where an object has names that differ from the path's in case only,
// it continues in each of them too, because some providers read them alike. found is false
// where the document lacks the place. It ends where f returns false, or where the work is
// spent.
func (d *document) each(i uint32, path []segment, f func(i uint32, found bool) bool) bool {
	for step, s := range path {
		if !d.spend(placeWork) {
			return false
		}
		switch n := d.node(i); {
		case n.kind == kindObject:
			m, ok, variants := d.member(i, s)
			if variants {
				return d.eachVariant(i, m, ok, path[step:], f)
			}
			if !ok {
				return f(0, false)
			}
			i = m
		case n.kind == kindArray && s.index >= 0:
			e, ok := d.element(i, s.index)
			if !ok {
				return f(0, false)
			}
			i = e
		case n.kind == kindArray && n.count > 0:
			for e := i + 1; e < n.next; e = d.node(e).next {
				if !d.each(e, path[step:], f) {
					return false
				}
			}
			return true
		default:
			return f(0, false)
		}
	}
	return f(i, true)
}

// eachVariant is each for an object with names that differ in case only: first the member of
// the very name, then the others.
func (d *document) eachVariant(self, exact uint32, there bool, path []segment, f func(i uint32, found bool) bool) bool {
	if there {
		if !d.each(exact, path[1:], f) {
			return false
		}
	} else if !f(0, false) {
		return false
	}
	for i := self + 1; i < d.node(self).next; i = d.node(i).next {
		if !d.spend(placeWork) {
			return false
		}
		if i != exact && d.compare(i, path[0]) == nameVariant && !d.each(i, path[1:], f) {
			return false
		}
	}
	return true
}
