package redact

import (
	"encoding/json"
)

// Values returns the string values of a JSON document that have least to most bytes, each
// once, in no order. Names of members are not values.
func Values(doc json.RawMessage, least, most int) []string {
	seen := map[string]bool{}
	eachValue(doc, least, func(_, _ int, value string) {
		if len(value) >= least && len(value) <= most {
			seen[value] = true
		}
	})
	out := make([]string, 0, len(seen))
	for value := range seen {
		out = append(out, value)
	}
	return out
}

// MaskValues returns the document with each string value that is one of secrets hidden. The
// rest stays byte for byte. A secret that is only a part of a value is not found.
func MaskValues(doc json.RawMessage, secrets map[string]bool) json.RawMessage {
	if len(secrets) == 0 || len(doc) == 0 {
		return doc
	}
	return Replace(doc, func(value string) string {
		if secrets[value] {
			return Masked
		}
		return value
	})
}

// Replace returns a valid document with each of its string values as by returns it. The rest stays
// byte for byte, and so does a value that by does not change.
func Replace(doc json.RawMessage, by func(value string) string) json.RawMessage {
	out := make(json.RawMessage, 0, len(doc))
	done := 0
	eachValue(doc, 0, func(from, to int, value string) {
		if other := by(value); other != value {
			out = append(append(out, doc[done:from]...), quote(other)...)
			done = to
		}
	})
	return append(out, doc[done:]...)
}

// eachValue calls f with each string value of a valid document that has at least least bytes
// as it is written, and where it begins and ends there, quotes included.
func eachValue(doc []byte, least int, f func(from, to int, value string)) {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		from, escaped := i, false
		for i++; i < len(doc) && doc[i] != '"'; i++ {
			if doc[i] == '\\' {
				escaped = true
				i++
			}
		}
		to := i + 1
		if to > len(doc) {
			return // no valid document
		}
		if to-from-2 < least || isName(doc[to:]) {
			continue
		}
		value := string(doc[from+1 : i])
		if escaped && json.Unmarshal(doc[from:to], &value) != nil {
			continue
		}
		f(from, to, value)
	}
}

// isName reports whether the string before rest is the name of a member.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}
