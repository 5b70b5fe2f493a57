package redact

import "unicode/utf8"

// scrubJSON replaces the spans in valid JSON so that it stays valid. Within strings
// it replaces whole characters and escapes. It replaces numbers whole, and never
// structure or literals.
func scrubJSON(text []byte, spans []span) []byte {
	out := make([]byte, 0, len(text)+len(Redacted))
	for i := 0; i < len(text); {
		for len(spans) > 0 && spans[0].to <= i {
			spans = spans[1:]
		}
		if len(spans) == 0 {
			return append(out, text[i:]...)
		}
		end := tokenEnd(text, i)
		hit := spans[0].from < end
		switch c := text[i]; {
		case c == '"' && hit:
			out = scrubString(append(out, '"'), text, span{i + 1, end - 1}, spans)
			out = append(out, '"')
		case hit && (c == '-' || '0' <= c && c <= '9'):
			out = append(out, `"`+Redacted+`"`...)
		default:
			out = append(out, text[i:end]...)
		}
		i = end
	}
	return out
}

// scrubString writes the inside of a string literal. It replaces as a whole an
// escape or a character that a span touches.
func scrubString(out, text []byte, inside span, spans []span) []byte {
	covered := -1 // start of the span that the last replaced unit belongs to
	for i := inside.from; i < inside.to; {
		n := unit(text[i:inside.to])
		for len(spans) > 0 && spans[0].to <= i {
			spans = spans[1:]
		}
		switch {
		case len(spans) == 0 || spans[0].from >= i+n:
			out = append(out, text[i:i+n]...)
		case covered != spans[0].from:
			covered = spans[0].from
			out = append(out, Redacted...)
		}
		i += n
	}
	return out
}

// unit returns the length of the escape or character at the start of b.
func unit(b []byte) int {
	if b[0] != '\\' {
		_, n := utf8.DecodeRune(b)
		return n
	}
	if b[1] != 'u' {
		return 2
	}
	if _, n := jsonEscape(nil, b); n > 0 {
		return n
	}
	return 6 // a lone surrogate
}

// tokenEnd returns the end of the JSON token at i: a string, a run of
// characters of a number or literal, or one other byte.
func tokenEnd(text []byte, i int) int {
	if text[i] == '"' {
		for i++; text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		return i + 1
	}
	start := i
	for i < len(text) && isWord(text[i]) {
		i++
	}
	return max(i, start+1)
}

// isWord reports whether c can be part of a number or literal.
func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == 'E' || c == '+' || c == '-' || c == '.'
}
