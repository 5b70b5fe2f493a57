package exactjson

import (
	"cmp"
	"encoding/json"
	"slices"
)

const (
	// longValue is from how many bytes on an Index remembers where a value ends. So each byte is read
	// with the one object or array that it stands in, however deep that is.
	longValue = 256
	// searches is how often an Index reads an object or array for one thing in it. Then it remembers
	// where everything in it is.
	searches = 4
	// rememberCost is what that costs for each byte, in bytes that are read.
	rememberCost = 4
)

// Index is Lookup for many paths in one text. Whatever the paths are, all of them together read each
// byte of the text about ten times at most. One caller uses it at a time.
type Index struct {
	text   text
	spend  func(bytes int) bool
	spent  bool // spend has returned false
	known  bool // text.long is
	places map[int]*place
}

// place is a long object or array that was searched.
type place struct {
	times   int
	members map[string]uint32 // where they begin; nil before all are remembered
	items   []uint32
}

// NewIndex returns an index of raw, which it has not read yet. spend is told of the bytes that were
// read. Once it has returned false, nothing is found.
func NewIndex(raw json.RawMessage, spend func(bytes int) bool) *Index {
	return &Index{text: text{data: raw}, spend: spend, places: map[int]*place{}}
}

// Lookup is the function of that name.
func (x *Index) Lookup(path []any) (value json.RawMessage, ok bool) {
	if x.spent || !x.know() {
		return nil, false
	}
	at := space(x.text.data, 0)
	for _, step := range path {
		if x.text.isNull(at) {
			return null(), true
		}
		if at, ok = x.find(at, step); !ok || !x.paid() {
			return nil, false
		}
		if at < 0 {
			return null(), true
		}
	}
	value, ok = x.text.value(at)
	return value, ok && x.paid()
}

// know finds the long values of the text, the first time. It returns false where the text ends too early.
func (x *Index) know() bool {
	if x.known || len(x.text.data) < longValue {
		return true
	}
	if x.text.read = len(x.text.data); !x.paid() {
		return false
	}
	x.text.long, x.known = longValues(x.text.data)
	return x.known
}

// paid reports whether what was read could be paid for.
func (x *Index) paid() bool {
	read := x.text.read
	x.text.read = 0
	x.spent = !x.spend(read)
	return !x.spent
}

// find is that of the text, and remembers what is searched often.
func (x *Index) find(at int, step any) (found int, ok bool) {
	if x.text.ofLong(at) < 0 {
		return x.text.find(at, step)
	}
	p := x.places[at]
	if p == nil {
		p = &place{}
		x.places[at] = p
	}
	if p.times++; p.times <= searches {
		return x.text.find(at, step)
	}
	switch s := step.(type) {
	case string:
		return x.member(p, at, s)
	case int:
		return x.item(p, at, s)
	}
	return -1, false
}

func (x *Index) member(p *place, at int, name string) (found int, ok bool) {
	if p.members == nil {
		members := map[string]uint32{}
		ok = x.text.members(at, func(quoted []byte, from int) {
			members[unquoted(quoted)] = uint32(from)
		})
		x.text.read *= rememberCost
		if !ok {
			return -1, false
		}
		p.members = members
	}
	if from, is := p.members[name]; is {
		return int(from), true
	}
	return -1, true
}

func (x *Index) item(p *place, at, position int) (found int, ok bool) {
	if p.items == nil {
		items := []uint32{}
		ok = x.text.items(at, func(from int) { items = append(items, uint32(from)) })
		x.text.read *= rememberCost
		if !ok {
			return -1, false
		}
		p.items = items
	}
	if position < 0 {
		position += len(p.items)
	}
	if position < 0 || position >= len(p.items) {
		return -1, true
	}
	return int(p.items[position]), true
}

// longValues returns the long values of a text. ok is false where it ends too early.
func longValues(data []byte) (list []span, ok bool) {
	var open []int // in list
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			from := i
			if i = closing(data, i); i < 0 {
				return nil, false
			}
			if i+1-from >= longValue {
				list = append(list, span{uint32(from), uint32(i + 1)})
			}
		case '{', '[':
			open = append(open, len(list))
			list = append(list, span{from: uint32(i)})
		case '}', ']':
			if len(open) == 0 {
				return nil, false
			}
			at := open[len(open)-1]
			open = open[:len(open)-1]
			if list[at].to = uint32(i + 1); list[at].to-list[at].from < longValue {
				list = list[:at] // nothing in it is long either
			}
		}
	}
	return list, len(open) == 0
}

// ofLong returns where the long value ends that begins at a place; -1 where none does.
func (t *text) ofLong(at int) int {
	if len(t.long) == 0 || at >= len(t.data) || t.data[at] != '{' && t.data[at] != '[' && t.data[at] != '"' {
		return -1
	}
	i, is := slices.BinarySearchFunc(t.long, uint32(at), func(s span, from uint32) int { return cmp.Compare(s.from, from) })
	if !is {
		return -1
	}
	return int(t.long[i].to)
}
