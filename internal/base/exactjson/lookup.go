package exactjson

import (
	"bytes"
	"encoding/json"
)

// Lookup returns the value at a path in raw, without decoding what is beside it: a 3 MiB
// document takes some milliseconds and no memory. Steps of the path are names (string) and
// positions (int, negative ones from the end). A value that is not there is null, as in jq.
// ok is false where the path does not fit the types, or raw cannot be read; the caller then
// decodes raw, and learns why. Each step reads what it is in: an Index is for many paths.
func Lookup(raw json.RawMessage, path []any) (value json.RawMessage, ok bool) {
	t := text{data: raw}
	at := space(raw, 0)
	for _, step := range path {
		if t.isNull(at) {
			return null(), true
		}
		if at, ok = t.find(at, step); !ok {
			return nil, false
		}
		if at < 0 {
			return null(), true
		}
	}
	return t.value(at)
}

func null() json.RawMessage { return json.RawMessage("null") }

// text is JSON as it is written.
type text struct {
	data []byte
	// long are the values of at least longValue bytes, in the order of the text, so that they are
	// skipped without being read; nil where they are not known.
	long []span
	// read is how many bytes were read.
	read int
}

// span is where a value begins and ends.
type span struct{ from, to uint32 }

func (t *text) isNull(at int) bool {
	return at < len(t.data) && bytes.HasPrefix(t.data[at:], []byte("null"))
}

// value returns the value that begins at a place. ok is false where it has no end.
func (t *text) value(at int) (value json.RawMessage, ok bool) {
	end := t.skip(at)
	if at >= len(t.data) || end < 0 {
		return nil, false
	}
	return t.data[at:end], true
}

// find returns where the member or the item begins that a step leads to; -1 where there is none. ok is
// false where the value at the place has none, or cannot be read.
func (t *text) find(at int, step any) (found int, ok bool) {
	found = -1
	switch s := step.(type) {
	case string:
		ok = t.members(at, func(name []byte, from int) {
			if named(name, s) { // the last one counts, as for a decoder
				found = from
			}
		})
	case int:
		var all []int // for positions from the end only
		n := 0
		ok = t.items(at, func(from int) {
			if n == s {
				found = from
			}
			if s < 0 {
				all = append(all, from)
			}
			n++
		})
		if i := len(all) + s; s < 0 && i >= 0 {
			found = all[i]
		}
	}
	return found, ok
}

// members calls do with each member of the object at a place. It returns false where there is no
// well-formed object.
func (t *text) members(at int, do func(quoted []byte, from int)) bool {
	data := t.data
	if at >= len(data) || data[at] != '{' {
		return false
	}
	i := space(data, at+1)
	for i < len(data) && data[i] == '"' {
		end := skip(data, i)
		if end < 0 {
			return false
		}
		name := data[i:end]
		t.read += end - i
		if i = space(data, end); i >= len(data) || data[i] != ':' {
			return false
		}
		from := space(data, i+1)
		if end = t.skip(from); end < 0 {
			return false
		}
		do(name, from)
		if i = space(data, end); i < len(data) && data[i] == ',' {
			i = space(data, i+1)
		}
	}
	return i < len(data) && data[i] == '}'
}

// items calls do with each item of the array at a place. It returns false where there is no well-formed
// array.
func (t *text) items(at int, do func(from int)) bool {
	data := t.data
	if at >= len(data) || data[at] != '[' {
		return false
	}
	i := space(data, at+1)
	for i < len(data) && data[i] != ']' {
		end := t.skip(i)
		if end < 0 {
			return false
		}
		do(i)
		if i = space(data, end); i < len(data) && data[i] == ',' {
			i = space(data, i+1)
		}
	}
	return i < len(data)
}

// named reports whether a quoted name is the name.
func named(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	return unquoted(quoted) == name
}

// unquoted returns what a quoted name says.
func unquoted(quoted []byte) string {
	var plain string
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	_ = json.Unmarshal(quoted, &plain) // it was read as a name before
	return plain
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value ends that begins at a place, or -1.
func (t *text) skip(at int) int {
	if end := t.ofLong(at); end > 0 {
		t.read++
		return end
	}
	end := skip(t.data, at)
	t.read += max(end-at, 0)
	return end
}

// skip returns where the value ends that begins at i, or -1.
func skip(data []byte, i int) int {
	depth := 0
	for ; i < len(data); i++ {
		switch data[i] {
		case '"':
			if i = closing(data, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r', ',', ':':
			continue
		default:
			for i+1 < len(data) && !delimits(data[i+1]) {
				i++
			}
		}
		if depth <= 0 {
			return i + 1
		}
	}
	return -1
}

func delimits(b byte) bool {
	return b == ',' || b == ']' || b == '}' || b == ' ' || b == '\t' || b == '\n' || b == '\r'
}

// closing returns where the quote stands that ends the text that begins at i, or -1.
func closing(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
