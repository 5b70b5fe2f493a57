package verb

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// nearPercent is how much of the longer name may differ.
	nearPercent = 35
	// nearMost bounds the names of Nearest: nobody reads a longer list.
	nearMost = 3
	// NearWindow is how many names Nearest looks at before a name and after it.
	NearWindow = 30
)

// Nearest returns at most three of the sorted names that are like a name which is not among them, the
// nearest first. It looks at the names next to it only, so its work has a bound.
func Nearest(name string, sorted []string) (near []string) {
	at, found := slices.BinarySearch(sorted, name)
	if found {
		return nil
	}
	distances := map[string]int{}
	for _, other := range sorted[max(0, at-NearWindow):min(len(sorted), at+NearWindow)] {
		if n := NameDistance(name, other); Alike(n, name, other) {
			distances[other] = n
			near = append(near, other)
		}
	}
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(distances[a]-distances[b], strings.Compare(a, b)) })
	return near[:min(nearMost, len(near))]
}

// Alike reports whether two names with this distance may be meant for each other.
func Alike(distance int, a, b string) bool {
	return distance*100 <= nearPercent*max(len(a), len(b))
}

// NameDistance is Distance, where the words of a verb may also be in another order.
func NameDistance(a, b string) int {
	return min(Distance(a, b), 1+Distance(words(a), words(b)))
}

func words(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	slices.Sort(parts)
	return strings.Join(parts, "_")
}

// Distance returns the number of bytes to insert, delete or replace that turn a into b
// (Levenshtein). Names are ASCII and have at most 64 characters.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
