package verb

import (
	"cmp"
	"slices"
	"strings"

	"agentruntime/internal/base/near"
)

const (
	// nearMost bounds the names of Nearest: nobody reads a longer list.
	nearMost = 3
	// NearWindow is how many names Nearest looks at before a name and after it.
	NearWindow = 30
)

// Nearest returns at most three of the sorted names that are like a name which is not among them, the
// nearest first. It looks at the names next to it only, so its work has a bound.
func Nearest(name string, sorted []string) (found []string) {
	at, known := slices.BinarySearch(sorted, name)
	if known {
		return nil
	}
	distances := map[string]int{}
	for _, other := range sorted[max(0, at-NearWindow):min(len(sorted), at+NearWindow)] {
		if n := NameDistance(name, other); near.Alike(n, name, other) {
			distances[other] = n
			found = append(found, other)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(distances[a]-distances[b], strings.Compare(a, b)) })
	return found[:min(nearMost, len(found))]
}

// NameDistance is near.Distance, where the words of a verb may also be in another order.
func NameDistance(a, b string) int {
	return min(near.Distance(a, b), 1+near.Distance(words(a), words(b)))
}

func words(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	slices.Sort(parts)
	return strings.Join(parts, "_")
}
