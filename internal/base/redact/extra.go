package redact

import (
	"slices"
	"strconv"
	"strings"
)

// AnyName matches any name of an object and any position of an array in a path.
const AnyName = "*"

// Also returns a Masker that also masks the values at the paths, whatever they look like. A
// path is a list of names from the root, which are compared without regard to case; AnyName
// matches any name. For an array a path has a
// position or AnyName, or nothing: then it continues in each element. Types stay as for
// Mask. A card number is hidden whole.
func (m *Masker) Also(paths ...[]string) *Masker {
	if len(paths) == 0 {
		return m
	}
	c := *m
	c.extra = slices.Concat(m.extra, paths)
	return &c
}

// follow keeps the paths that lead to member name, one step further. paths are those of the
// object that s is a member of.
func (s *scope) follow(paths [][]string, name string) {
	for _, p := range paths {
		if len(p) > 0 && (p[0] == AnyName || strings.EqualFold(p[0], name)) {
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
			s.keep(p) // the array was left out, or * was meant for what is in it
		}
	}
}

func (s *scope) step(rest []string) {
	if len(rest) == 0 {
		s.hide, s.asked = true, true
		return
	}
	s.keep(rest)
}

// keep adds a path that continues, once. In nested arrays the same rest is reached on many
// ways, and their number would double with each level.
func (s *scope) keep(rest []string) {
	for _, p := range s.extra {
		if len(p) == len(rest) && &p[0] == &rest[0] {
			return
		}
	}
	s.extra = append(s.extra, rest)
}
