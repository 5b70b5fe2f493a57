package governance

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"agentruntime/internal/base/schemagraph"
)

// kind is what a JSON value is.
type kind uint8

const (
	kindNull   = kind(schemagraph.Null)
	kindBool   = kind(schemagraph.Bool)
	kindNumber = kind(schemagraph.Number)
	kindString = kind(schemagraph.String)
	kindArray  = kind(schemagraph.Array)
	kindObject = kind(schemagraph.Object)
	kindAny    = kind(schemagraph.Any)
	kindScalar = kindBool | kindNumber | kindString
)

// BytesPerByte is how much memory the judging of a call takes at most for each byte of its arguments:
// the places of their values, twice where they are also shown masked, and the masked text.
const BytesPerByte = 64

// maxDepth is the deepest nesting that is read; the reader of requests allows 64.
const maxDepth = 128

// wide is the number of members from which an object's names are kept in a map.
const wide = 32

// node is one value of a document. The values inside it follow it.
type node struct {
	kind              kind
	nameFrom, nameEnd uint32 // between the quotes, where it is a member
	from, end         uint32
	next              uint32 // the node after all that is inside it
	count             uint32 // members or elements
}

// document is a JSON text and the places of its values. It is read once, when the first
// condition needs it. Any text is allowed: one that is not JSON is marked as broken.
type document struct {
	data   []byte
	size   uint32      // nodes there are
	few    [fewer]node // the first nodes: most documents need no further memory
	more   []node
	read   bool
	broken bool
	names  map[uint32]wideNames // members of wide objects, by name
	left   int                  // work, see spend
}

// spend takes work off what is left and reports whether there was enough. The unit is one
// step of a regular expression, about 20 ns.
func (d *document) spend(work int) bool {
	d.left -= work
	return d.left >= 0
}

// What looking into a document costs, in that unit.
const (
	placeWork = 4  // going to a member or to the next element
	indexWork = 10 // noting one name of a wide object
)

// fewer is how many nodes a document has room for.
const fewer = 32

func (d *document) node(i uint32) *node {
	if i < fewer {
		return &d.few[i]
	}
	return &d.more[i-fewer]
}

// add appends a node.
func (d *document) add(n node) {
	if d.size < fewer {
		d.few[d.size] = n
	} else {
		if d.more == nil {
			d.more = make([]node, 0, d.atMost())
		}
		d.more = append(d.more, n)
	}
	d.size++
}

// atMost returns how many nodes there may be: each but the first follows a comma or opens an object or
// an array. A slice that grows step by step would take five times the memory of its last step. Texts
// full of commas take too much, and no more than numbers would.
func (d *document) atMost() int {
	return 1 + bytes.Count(d.data, []byte{','}) + bytes.Count(d.data, []byte{'['}) + bytes.Count(d.data, []byte{'{'})
}

// load reads data, once, and reports whether it is JSON.
func (d *document) load() bool {
	if d.read {
		return !d.broken
	}
	d.read = true
	i := d.space(0)
	if i == len(d.data) { // no arguments at all
		d.data = []byte("{}")
		i = 0
	}
	end, ok := d.parse(i, 0)
	d.broken = !ok || d.space(end) != len(d.data)
	return !d.broken
}

func (d *document) space(i int) int {
	for i < len(d.data) && (d.data[i] == ' ' || d.data[i] == '\t' || d.data[i] == '\n' || d.data[i] == '\r') {
		i++
	}
	return i
}

func (d *document) at(i int) byte {
	if i < len(d.data) {
		return d.data[i]
	}
	return 0
}

// parse reads the value at i into nodes and returns the position after it.
func (d *document) parse(i, depth int) (end int, ok bool) {
	self := d.size
	d.add(node{from: uint32(i)})
	var k kind
	var count uint32
	switch c := d.at(i); c {
	case '{', '[':
		if depth >= maxDepth {
			return i, false
		}
		k = kindArray
		if c == '{' {
			k = kindObject
		}
		end, count, ok = d.container(i, depth)
	case '"':
		k = kindString
		end, ok = d.str(i)
	case 't':
		k = kindBool
		end, ok = d.literal(i, "true")
	case 'f':
		k = kindBool
		end, ok = d.literal(i, "false")
	case 'n':
		k = kindNull
		end, ok = d.literal(i, "null")
	default:
		k = kindNumber
		end, ok = d.number(i)
	}
	n := d.node(self)
	n.kind, n.end, n.count, n.next = k, uint32(end), count, d.size
	return end, ok
}

// container reads an object or array that begins at i.
func (d *document) container(i, depth int) (end int, count uint32, ok bool) {
	object := d.data[i] == '{'
	last := byte(']')
	if object {
		last = '}'
	}
	if i = d.space(i + 1); d.at(i) == last {
		return i + 1, 0, true
	}
	for {
		nameFrom, nameEnd := 0, 0
		if object {
			if d.at(i) != '"' {
				return i, count, false
			}
			after, ok := d.str(i)
			if !ok {
				return i, count, false
			}
			nameFrom, nameEnd = i+1, after-1
			if i = d.space(after); d.at(i) != ':' {
				return i, count, false
			}
			i = d.space(i + 1)
		}
		child := d.size
		if i, ok = d.parse(i, depth+1); !ok {
			return i, count, false
		}
		n := d.node(child)
		n.nameFrom, n.nameEnd = uint32(nameFrom), uint32(nameEnd)
		count++
		switch i = d.space(i); d.at(i) {
		case last:
			return i + 1, count, true
		case ',':
			i = d.space(i + 1)
		default:
			return i, count, false
		}
	}
}

func (d *document) literal(i int, word string) (int, bool) {
	end := i + len(word)
	return end, end <= len(d.data) && string(d.data[i:end]) == word
}

// number finds the end of a number. The number itself is read when it is compared.
func (d *document) number(i int) (int, bool) {
	end := i
	for end < len(d.data) {
		switch c := d.data[end]; {
		case '0' <= c && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			end++
			continue
		}
		break
	}
	return end, end > i && d.data[i] != '+' && d.data[i] != '.' && d.data[i]|0x20 != 'e'
}

// str finds the end of a string. The reader of the request has checked the escapes; a
// wrong one here makes the document broken.
func (d *document) str(i int) (int, bool) {
	for i++; i < len(d.data); i++ {
		switch d.data[i] {
		case '"':
			return i + 1, true
		case '\\':
			if i++; i < len(d.data) && d.data[i] == 'u' {
				if _, ok := hex4(d.data[i+1:]); !ok {
					return i, false
				}
				i += 4
			} else if i < len(d.data) && !bytes.ContainsRune([]byte(`"\/bfnrt`), rune(d.data[i])) {
				return i, false
			}
		}
	}
	return i, false
}

// likeness is how a member's name compares with one that is looked for.
type likeness uint8

const (
	nameOther   likeness = iota
	nameVariant          // it differs in case only
	nameSame
)

// member returns the member of object self with the segment's name, and whether there are
// others whose name differs from it in case only.
func (d *document) member(self uint32, s segment) (at uint32, ok, variants bool) {
	n := d.node(self)
	if n.count > wide {
		return d.lookup(self, s)
	}
	for i := self + 1; i < n.next; i = d.node(i).next {
		switch d.compare(i, s) {
		case nameSame:
			at, ok = i, true
		case nameVariant:
			variants = true
		case nameOther:
		}
	}
	return at, ok, variants
}

// mostWritten is how many bytes of JSON one byte of a name can take, also where the name differs
// in case: the longest is an escape.
const mostWritten = len(`\u212A`)

// compare compares the name of member i. A name that is too long to be the other costs
// nothing, however long it is.
func (d *document) compare(i uint32, s segment) likeness {
	raw := d.data[d.node(i).nameFrom:d.node(i).nameEnd]
	if len(raw) > mostWritten*len(s.name) {
		return nameOther
	}
	d.spend(len(raw) / bytesPerStep)
	if string(raw) == s.name {
		return nameSame
	}
	plain := len(raw) != len(s.name)
	for _, c := range raw {
		if c >= utf8.RuneSelf || c == '\\' {
			return d.compareSlowly(raw, s)
		}
	}
	switch {
	case len(s.folded) != len(s.name): // its folded form has other characters
		return d.compareSlowly(raw, s)
	case plain:
		return nameOther
	}
	for at, c := range raw {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != s.folded[at] {
			return nameOther
		}
	}
	return nameVariant
}

// compareSlowly is compare for names with escapes, or characters beyond ASCII.
func (d *document) compareSlowly(raw []byte, s segment) likeness {
	name := string(unescape(nil, raw))
	switch {
	case name == s.name:
		return nameSame
	case schemagraph.Fold(name) == s.folded:
		return nameVariant
	}
	return nameOther
}

// wideNames finds members of a wide object by their folded names.
type wideNames struct {
	first map[string]uint32
	many  map[string]bool // names that several members share
}

// lookup is member for objects with many.
func (d *document) lookup(self uint32, s segment) (at uint32, ok, variants bool) {
	x, known := d.names[self]
	if !known {
		count := int(d.node(self).count)
		d.spend(count * indexWork)
		x = wideNames{first: make(map[string]uint32, count)}
		for i := self + 1; i < d.node(self).next; i = d.node(i).next {
			folded := schemagraph.Fold(string(unescape(nil, d.data[d.node(i).nameFrom:d.node(i).nameEnd])))
			if _, twice := x.first[folded]; !twice {
				x.first[folded] = i
				continue
			}
			if x.many == nil {
				x.many = map[string]bool{}
			}
			x.many[folded] = true
		}
		if d.names == nil {
			d.names = map[uint32]wideNames{}
		}
		d.names[self] = x
	}
	first, there := x.first[s.folded]
	switch {
	case !there:
		return 0, false, false
	case x.many[s.folded]:
		return d.among(self, s)
	}
	if d.compare(first, s) == nameSame {
		return first, true, false
	}
	return 0, false, true
}

// among finds the member of the very name where several differ in case only.
func (d *document) among(self uint32, s segment) (at uint32, ok, variants bool) {
	d.spend(int(d.node(self).count))
	for i := self + 1; i < d.node(self).next; i = d.node(i).next {
		if d.compare(i, s) == nameSame {
			return i, true, true
		}
	}
	return 0, false, true
}

// element returns element n of array self.
func (d *document) element(self uint32, n int) (uint32, bool) {
	if n >= int(d.node(self).count) {
		return 0, false
	}
	i := self + 1
	d.spend(n / 8)
	for ; n > 0; n-- {
		i = d.node(i).next
	}
	return i, true
}

// raw returns the text of value i.
func (d *document) raw(i uint32) []byte { return d.data[d.node(i).from:d.node(i).end] }

// text returns the meaning of string i. It shares the document's memory where nothing is
// escaped.
func (d *document) text(i uint32) []byte { return unquote(d.raw(i)) }

// value returns value i in the form that conditions judge.
func (d *document) value(i uint32) value {
	v := value{kind: d.node(i).kind, text: d.raw(i)}
	if v.kind == kindString {
		if bytes.IndexByte(v.text, '\\') >= 0 {
			d.spend(len(v.text) / 4)
		}
		v.text = unquote(v.text)
	}
	return v
}

func unquote(raw []byte) []byte {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return unescape(make([]byte, 0, len(raw)), raw)
}

// unescape appends the meaning of a string's inside to dst.
func unescape(dst, src []byte) []byte {
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' || i+1 == len(src) {
			dst = append(dst, src[i])
			continue
		}
		i++
		switch c := src[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(src[i+1:])
			i += 4
			if utf16.IsSurrogate(r) && i+2 < len(src) && src[i+1] == '\\' && src[i+2] == 'u' {
				low, _ := hex4(src[i+3:])
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// hex4 reads four hexadecimal digits at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
