// Package exactjson reads and writes JSON whose numbers keep their digits, and bounds what
// a document may be made of before anything expands it. The importer of documents, the
// checks of arguments and the building of requests use it. For bodies of our own API there
// is strictjson.
package exactjson

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxDepth is how deep a document or an answer may nest. GitHub's document nests 21 levels
// deep and Stripe's 26.
const MaxDepth = 200

// Encode writes v as compact JSON with sorted names and without HTML escapes.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Decode reads JSON with exact numbers.
func Decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// Text writes a value as JSON text, "" where that cannot be.
func Text(v any) string {
	raw, err := Encode(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

// Shape returns the deepest nesting of raw and about how many values it has,
// without decoding it.
func Shape(raw []byte) (deepest, values int) {
	depth := 0
	eachMark(raw, func(mark byte) {
		switch mark {
		case '{', '[':
			values++
			depth++
			deepest = max(deepest, depth)
		case ',':
			values++
		default:
			depth--
		}
	})
	return deepest, values
}

// What Decode takes, in bytes: a small object has room for eight members, and any other value has its
// place, its kind and a short text. Measured documents take up to a sixth less.
const (
	BytesOfObject = 400
	BytesOfValue  = 50
)

// TreeBytes returns about how many bytes of memory the result of Decode takes besides long texts,
// without decoding raw.
func TreeBytes(raw []byte) (bytes int) {
	eachMark(raw, func(mark byte) {
		switch mark {
		case '{':
			bytes += BytesOfObject
		case '[', ',':
			bytes += BytesOfValue
		}
	})
	return bytes
}

// eachMark calls do with each bracket, brace and comma of raw that is not within a text.
func eachMark(raw []byte, do func(mark byte)) {
	inString, escaped := false, false
	for _, b := range raw {
		switch {
		case escaped:
			escaped = false
		case inString && b == '\\':
			escaped = true
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[' || b == ',' || b == '}' || b == ']':
			do(b)
		}
	}
}
