package redact

import (
	"slices"
	"strconv"
)

// AnyName stands in a path for any name of an object and any position of an array.
const AnyName = "*"

// Also returns a Masker that masks what the paths lead to as well, whatever it looks
// like: each is the names on the way in, of which AnyName fits all. An array may be
// named by a position or AnyName, or left out: then the path goes on in each of its
// elements. Types stay as for Mask; a card number is hidden whole.
func (m *Masker) Also(paths ...[]string) *Masker {
	if len(paths) == 0 {
		return m
	}
	c := *m
	c.extra = slices.Concat(m.extra, paths)
	return &c
}

// follow takes the paths of the object that s is a member of one step on.
func (s *scope) follow(paths [][]string, name string) {
	for _, p := range paths {
		if len(p) > 0 && (p[0] == AnyName || p[0] == name) {
			s.step(p[1:])
		}
	}
}

// followItem is follow for an element of an array.
func (s *scope) followItem(paths [][]string, n int) {
	position := strconv.Itoa(n)
	for _, p := range paths {
		if len(p) == 0 {
			continue
		}
		if p[0] == AnyName || p[0] == position {
			s.step(p[1:])
		}
		if _, err := strconv.Atoi(p[0]); err != nil {
			s.extra = append(s.extra, p) // the array was left out, or * was meant for what is in it
		}
	}
}

func (s *scope) step(rest []string) {
	if len(rest) == 0 {
		s.hide, s.asked = true, true
		return
	}
	s.extra = append(s.extra, rest)
}
