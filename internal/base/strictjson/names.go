package strictjson

import (
	"bytes"
	"hash/maphash"
	"unicode"
	"unicode/utf8"
)

// name is one name of an open object: its hash, and the place of the form that is
// compared, in the body itself or in the arena.
type name struct {
	hash    uint64
	off, n  uint32
	inArena bool
}

// nameSet is the set of names of one open object: scanner.names[base:], with an
// index over them once there are many. Each body has a hash seed of its own, so that
// callers cannot prepare names that collide.
type nameSet struct {
	base  int
	arena int // length of the arena when the object began
	fold  bool
	index []int32 // open addressing; 1 + position in names, 0 is empty
}

// linear is the number of names up to which a scan is faster than an index.
const linear = 16

// add records a name and reports whether it is new to the set.
func (s *scanner) add(set *nameSet, t text) bool {
	e := s.entry(t, set.fold)
	key := s.key(e)
	e.hash = maphash.Bytes(s.seed, key)
	if set.index == nil {
		for i := set.base; i < len(s.names); i++ {
			if s.same(s.names[i], e.hash, key) {
				return false
			}
		}
	} else if !s.probe(set, e.hash, key) {
		return false
	}
	s.names = append(s.names, e)
	s.reindex(set)
	return true
}

// probe takes a slot for the next name and returns true, or returns false where the
// name is there already.
func (s *scanner) probe(set *nameSet, hash uint64, key []byte) bool {
	mask := uint64(len(set.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		at := set.index[i]
		if at == 0 {
			set.index[i] = int32(len(s.names) + 1) // fits: a body is far below 2^31 bytes
			return true
		}
		if s.same(s.names[at-1], hash, key) {
			return false
		}
	}
}

// reindex makes or doubles the index so that it stays at most half full.
func (s *scanner) reindex(set *nameSet) {
	count := len(s.names) - set.base
	if count < linear || count*2 < len(set.index) {
		return
	}
	set.index = make([]int32, max(4*linear, 4*len(set.index)))
	mask := uint64(len(set.index) - 1)
	for at := set.base; at < len(s.names); at++ {
		i := s.names[at].hash & mask
		for set.index[i] != 0 {
			i = (i + 1) & mask
		}
		set.index[i] = int32(at + 1)
	}
}

func (s *scanner) same(e name, hash uint64, key []byte) bool {
	return e.hash == hash && bytes.Equal(s.key(e), key)
}

func (s *scanner) key(e name) []byte {
	if e.inArena {
		return s.arena[e.off : e.off+e.n]
	}
	return s.data[e.off : e.off+e.n]
}

// entry returns the place of the form of the name that is compared. A form that is
// folded or unescaped is written to the arena. The offsets fit: a body is far below
// 2^32 bytes.
func (s *scanner) entry(t text, fold bool) name {
	raw := s.data[t.start:t.end]
	if !fold && !t.escaped {
		return name{off: uint32(t.start), n: uint32(len(raw))}
	}
	from := len(s.arena)
	if t.escaped {
		s.arena = unescape(s.arena, raw)
	} else {
		s.arena = append(s.arena, raw...)
	}
	if fold {
		s.arena = foldTail(s.arena, from)
	}
	return name{off: uint32(from), n: uint32(len(s.arena) - from), inArena: true}
}

// foldTail replaces b[from:] by its simple Unicode case folding. Of the characters
// that encoding/json treats as the same, each becomes the smallest.
func foldTail(b []byte, from int) []byte {
	for i := from; i < len(b); i++ {
		c := b[i]
		if c >= utf8.RuneSelf {
			return foldRunes(b, i)
		}
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return b
}

func foldRunes(b []byte, from int) []byte {
	tail := bytes.Runes(b[from:])
	b = b[:from]
	for _, r := range tail {
		b = utf8.AppendRune(b, foldRune(r))
	}
	return b
}

func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// plainName returns the name as written, unescaped; it is valid until the next
// name is read.
func (s *scanner) plainName(t text) []byte {
	raw := s.data[t.start:t.end]
	if !t.escaped {
		return raw
	}
	return unescape(nil, raw)
}

func (s *scanner) nameOf(t text) string { return string(s.plainName(t)) }
