package strictjson

import (
	"hash/maphash"
	"math/bits"
	"strconv"
	"strings"
)

// scanner reads the body once, forward.
type scanner struct {
	data     []byte
	pos      int
	lim      limits
	maxDepth int
	free     []string

	names []name // of all open objects, innermost last
	arena []byte // unescaped and folded names
	seed  maphash.Seed
}

// maxFree is how many free pointers the bit set of a place has room for.
const maxFree = 64

// place is where the scanner is in the tree: how deep, whether the subtree is free,
// and which free pointers match so far (one bit each).
type place struct {
	depth int
	free  bool
	match uint64
}

func (s *scanner) root() place {
	at := place{}
	for i, pointer := range s.free {
		if pointer == "" {
			return place{free: true}
		}
		at.match |= 1 << i
	}
	return at
}

// child returns the place of a member or element of at.
func (s *scanner) child(at place, segment []byte) place {
	next := place{depth: at.depth + 1, free: at.free}
	if at.free {
		return next
	}
	for m := at.match; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		want, last := segmentAt(s.free[i], at.depth)
		if want != "*" && want != string(segment) {
			continue
		}
		if last {
			return place{depth: next.depth, free: true}
		}
		next.match |= 1 << i
	}
	return next
}

// segmentAt returns segment n of a pointer and whether it is the last one.
func segmentAt(pointer string, n int) (string, bool) {
	for ; ; n-- {
		pointer = strings.TrimPrefix(pointer, "/")
		i := strings.IndexByte(pointer, '/')
		if n == 0 && i < 0 {
			return pointer, true
		}
		if n == 0 {
			return pointer[:i], false
		}
		pointer = pointer[max(i, 0):]
	}
}

func (s *scanner) fail(rule, what string) *problem {
	return &problem{rule: rule, what: what, off: s.pos}
}

// unexpected returns the problem that the body is not JSON at this byte, or ends here.
func (s *scanner) unexpected(want string) *problem {
	switch {
	case s.pos >= len(s.data):
		return s.fail(RuleSyntax, "the body ends where "+want+" is expected")
	case s.data[s.pos] == 0:
		return s.fail(RuleNUL, "a NUL byte is not allowed")
	}
	return s.fail(RuleSyntax, want+" is expected")
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// value reads one value; the scanner is at its first byte.
func (s *scanner) value(at place) *problem {
	if s.pos >= len(s.data) {
		return s.unexpected("a value")
	}
	switch c := s.data[s.pos]; c {
	case '{', '[':
		if at.depth >= s.maxDepth {
			return s.fail(RuleDepth, "arrays and objects are nested more than "+strconv.Itoa(s.maxDepth)+" deep")
		}
		if c == '{' {
			return s.object(at)
		}
		return s.array(at)
	case '"':
		_, p := s.str()
		return p
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return s.unexpected("a value")
	}
}

func (s *scanner) literal(word string) *problem {
	if end := s.pos + len(word); end <= len(s.data) && string(s.data[s.pos:end]) == word {
		s.pos = end
		return nil
	}
	return s.unexpected("a value")
}

func (s *scanner) array(at place) *problem {
	s.pos++
	if s.space(); s.peek() == ']' {
		s.pos++
		return nil
	}
	// All elements share one place unless a free pointer names an index.
	for i := 0; ; i++ {
		next := place{depth: at.depth + 1, free: at.free}
		if at.match != 0 {
			next = s.child(at, strconv.AppendInt(nil, int64(i), 10))
		}
		s.space()
		if p := s.value(next); p != nil {
			return p.under(strconv.Itoa(i))
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.unexpected("a comma or ]")
		}
	}
}

func (s *scanner) object(at place) *problem {
	s.pos++
	if s.space(); s.peek() == '}' {
		s.pos++
		return nil
	}
	set := nameSet{base: len(s.names), arena: len(s.arena), fold: !at.free}
	for {
		if s.space(); s.peek() != '"' {
			return s.unexpected("a name in quotes")
		}
		if p := s.member(at, &set); p != nil {
			return p
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.names, s.arena = s.names[:set.base], s.arena[:set.arena]
			return nil
		default:
			return s.unexpected("a comma or }")
		}
	}
}

// member reads name, colon and value.
func (s *scanner) member(at place, set *nameSet) *problem {
	start := s.pos
	text, p := s.str()
	if p != nil {
		return p
	}
	if !s.add(set, text) {
		dup := &problem{rule: RuleDuplicateName, what: "a name appears twice in one object", off: start}
		if set.fold {
			dup.what = "a name appears twice in one object (upper and lower case count as the same)"
		}
		return dup.under(s.nameOf(text))
	}
	if s.space(); s.peek() != ':' {
		return s.unexpected("a colon")
	}
	s.pos++
	s.space()
	next := place{depth: at.depth + 1, free: at.free}
	if at.match != 0 {
		next = s.child(at, s.plainName(text))
	}
	if p := s.value(next); p != nil {
		return p.under(s.nameOf(text))
	}
	return nil
}

// peek returns the byte that the scanner is at, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
