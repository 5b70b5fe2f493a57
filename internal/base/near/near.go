// Package near finds the known name that a text was probably meant to be. Whatever refuses an
// unknown member, value, verb, provider, permission, field, operator or parameter asks it. It
// knows nothing of what the names stand for, and its work has a bound.
package near

import (
	"strings"
)

const (
	// percent is how much of the longer of two names may differ.
	percent = 35
	// maxName is the longest text that is compared, in bytes. Names are shorter.
	maxName = 64
	// maxKnown is how many known names are looked at.
	maxKnown = 1_000
	// leastBegin is how many bytes two names share where one is the beginning of the other.
	leastBegin = 4
)

// Name returns the known name that text is nearest to, and "" where it is like none of them. Case,
// hyphens and underscores do not count.
func Name(text string, known []string) string {
	if len(text) > maxName || text == "" {
		return ""
	}
	plain := plainly(text)
	best, least := "", maxName
	for _, name := range known[:min(len(known), maxKnown)] {
		if len(name) > maxName || name == text {
			continue
		}
		if n, alike := distance(plain, plainly(name)); alike && n < least {
			best, least = name, n
		}
	}
	return best
}

// Ask returns "did you mean name?" for the known name that text is nearest to, and "" where there is
// none.
func Ask(text string, known []string) string {
	if name := Name(text, known); name != "" {
		return "did you mean " + name + "?"
	}
	return ""
}

// Sentence is Ask as a sentence of its own, which begins with a space.
func Sentence(text string, known []string) string {
	if name := Name(text, known); name != "" {
		return " Did you mean " + name + "?"
	}
	return ""
}

// OneOf returns what is wrong with a value that is none of those known: "must be a, b or c", and the nearest of
// them where there is one: "; did you mean b?".
func OneOf[T ~string](text T, known ...T) string {
	names := texts(known)
	message := "must be " + listed(names)
	if ask := Ask(string(text), names); ask != "" {
		message += "; " + ask
	}
	return message
}

// Enum is OneOf as sentences about the member: "type is a, b or c. Did you mean b?".
func Enum[T ~string](member string, text T, known ...T) string {
	names := texts(known)
	return member + " is " + listed(names) + "." + Sentence(string(text), names)
}

func texts[T ~string](known []T) []string {
	names := make([]string, len(known))
	for i, name := range known {
		names[i] = string(name)
	}
	return names
}

// listed returns names as people list them.
func listed(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// distance returns how far two plain names are apart, and whether they may be meant for each other.
func distance(a, b string) (n int, alike bool) {
	if short, long := min(len(a), len(b)), max(len(a), len(b)); (long-short)*100 > percent*long {
		begins := short >= leastBegin && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
		return long - short, begins
	}
	n = Distance(a, b)
	return n, Alike(n, a, b)
}

// plainly returns a name without what people write in different ways.
func plainly(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// Alike reports whether two names with this distance may be meant for each other.
func Alike(distance int, a, b string) bool {
	return distance*100 <= percent*max(len(a), len(b))
}

// Distance returns the number of bytes to insert, delete or replace, or of neighbours to exchange, that
// turn a into b. It takes as many steps as the product of their lengths.
func Distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
