package exactjson

import (
	"bytes"
	"encoding/json"
)

// Lookup returns the value at a path in raw, without decoding what is beside it: a 3 MiB
// document takes some milliseconds and no memory. Steps of the path are names (string) and
// positions (int, negative ones from the end). A value that is not there is null, as in jq.
// ok is false where the path does not fit the types, or raw cannot be read; the caller then
// decodes raw, and learns why.
func Lookup(raw json.RawMessage, path []any) (value json.RawMessage, ok bool) {
	value = bytes.TrimSpace(raw)
	for _, step := range path {
		if len(value) == 0 {
			return nil, false
		}
		if string(value) == "null" {
			return value, true
		}
		switch s := step.(type) {
		case string:
			value, ok = member(value, s)
		case int:
			value, ok = item(value, s)
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return value, len(value) > 0
}

func null() json.RawMessage { return json.RawMessage("null") }

// member returns the last member of that name, as a decoder would.
func member(object []byte, name string) (json.RawMessage, bool) {
	if object[0] != '{' {
		return nil, false
	}
	found := null()
	i := space(object, 1)
	for i < len(object) && object[i] == '"' {
		end := skip(object, i)
		if end < 0 {
			return nil, false
		}
		matches := named(object[i:end], name)
		i = space(object, end)
		if i >= len(object) || object[i] != ':' {
			return nil, false
		}
		start := space(object, i+1)
		if end = skip(object, start); end < 0 {
			return nil, false
		}
		if matches {
			found = object[start:end]
		}
		if i = space(object, end); i < len(object) && object[i] == ',' {
			i = space(object, i+1)
		}
	}
	return found, i < len(object) && object[i] == '}'
}

// named reports whether a quoted name is the name.
func named(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	var plain string
	return json.Unmarshal(quoted, &plain) == nil && plain == name
}

// item returns the item at a position.
func item(array []byte, at int) (json.RawMessage, bool) {
	if array[0] != '[' {
		return nil, false
	}
	var all [][]byte // for positions from the end only
	i := space(array, 1)
	found := null()
	for n := 0; i < len(array) && array[i] != ']'; n++ {
		end := skip(array, i)
		if end < 0 {
			return nil, false
		}
		if n == at {
			found = array[i:end]
		}
		if at < 0 {
			all = append(all, array[i:end])
		}
		if i = space(array, end); i < len(array) && array[i] == ',' {
			i = space(array, i+1)
		}
	}
	if from := len(all) + at; at < 0 && from >= 0 {
		found = all[from]
	}
	return found, i < len(array)
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
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
