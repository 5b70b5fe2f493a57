package exactjson

import (
	"encoding/json"
	"iter"
)

// Items returns the items of an array, one after the other, without decoding them. A text that is
// no well-formed array ends early.
func Items(array json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		if len(array) == 0 || array[0] != '[' {
			return
		}
		for i := space(array, 1); i < len(array) && array[i] != ']'; {
			end := skip(array, i)
			if end < 0 || !yield(array[i:end]) {
				return
			}
			if i = space(array, end); i < len(array) && array[i] == ',' {
				i = space(array, i+1)
			}
		}
	}
}
