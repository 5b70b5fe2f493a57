package redact

import (
	"bytes"
	"slices"
)

// finder looks for many patterns in one pass (Wu and Manber). It looks at the last
// block of a window as long as the shortest pattern. After most blocks it can skip
// nearly a whole window. Making a finder costs a few microseconds, which matters
// because every provider call makes its own.
type finder struct {
	patterns [][]byte // without duplicates, longest first
	window   int      // length of the shortest pattern
	shift    []uint8  // by block hash: how far the window may move
	first    []int16  // by block hash: 1 + first pattern whose window ends so
	next     []int16  // by pattern: 1 + next one of the same block
	// cut has the whole text of patterns that are only its beginning. A match of one goes on
	// as far as the text does.
	cut map[string]string
}

// The block is three bytes, hashed to blockBits bits.
const (
	blockBits = 12
	block     = 3
)

func newFinder(patterns [][]byte) finder {
	slices.SortFunc(patterns, func(a, b []byte) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return bytes.Compare(a, b)
	})
	patterns = slices.CompactFunc(patterns, bytes.Equal)
	if len(patterns) == 0 {
		return finder{}
	}
	f := finder{patterns: patterns, window: min(len(patterns[len(patterns)-1]), 200)}
	f.shift = bytes.Repeat([]byte{byte(f.window - block + 1)}, 1<<blockBits)
	f.first = make([]int16, 1<<blockBits)
	f.next = make([]int16, len(patterns))
	for i := len(patterns) - 1; i >= 0; i-- {
		for end := block; end <= f.window; end++ {
			h := blockHash(patterns[i][end-block : end])
			f.shift[h] = min(f.shift[h], byte(f.window-end))
		}
		h := blockHash(patterns[i][f.window-block : f.window])
		f.next[i], f.first[h] = f.first[h], int16(i+1) // fits: a call has few secrets
	}
	return f
}

func blockHash(b []byte) uint32 {
	return (uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) * 2654435769 >> (32 - blockBits)
}

func (f *finder) empty() bool { return len(f.patterns) == 0 }

// longest returns the length of the longest pattern.
func (f *finder) longest() int { return len(f.patterns[0]) }

// all appends where in text[w.from:w.to] patterns begin and end, in the order of
// the beginnings. Of those that begin at one place it appends the longest.
func (f *finder) all(spans []span, text []byte, w span) []span {
	to := min(w.to, len(text))
	covered := w.from // where the last match ends
	for end := w.from + f.window; end <= to; {
		h := blockHash(text[end-block : end])
		if s := f.shift[h]; s > 0 {
			end += int(s)
			continue
		}
		start := end - f.window
		for p := f.first[h]; p > 0; p = f.next[p-1] {
			if pattern := f.patterns[p-1]; bytes.HasPrefix(text[start:], pattern) {
				n := f.length(text[start:], pattern, covered-start)
				spans = append(spans, span{start, start + n})
				covered = max(covered, start+n)
				break
			}
		}
		end++ // overlapping secrets are both found
	}
	return spans
}

// length returns how much of text a match of the pattern covers. What a match before covers is
// not compared again: a text may repeat nearly a whole secret at every place.
func (f *finder) length(text, pattern []byte, covered int) int {
	whole := f.cut[string(pattern)]
	n := max(len(pattern), min(covered, len(whole)))
	for n < len(whole) && n < len(text) && text[n] == whole[n] {
		n++
	}
	return n
}

func (f *finder) inWindows(d decoded) []span {
	var spans []span
	for _, w := range d.windows {
		spans = f.all(spans, d.text, w)
	}
	return spans
}
