// Package glob compares texts with patterns in which * is any text. Matchers of policies, the
// tools of agents and the rules of imports use it. It knows nothing of what the texts name.
package glob

import "strings"

// Match reports whether the whole text fits the pattern. * is any text, the empty one too; every
// other character is itself. It takes at most as many steps as the product of their lengths, and
// no memory.
func Match[T ~string | ~[]byte](pattern string, text T) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && pattern[p] == text[n]:
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
