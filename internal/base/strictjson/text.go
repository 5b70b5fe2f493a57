package strictjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text is a string literal in the body, without its quotes.
type text struct {
	start, end int
	escaped    bool
}

//nolint:gochecknoglobals // immutable: bytes that need no escape in a string
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str reads a string literal; the scanner is at the opening quote.
func (s *scanner) str() (text, *problem) {
	data, i := s.data, s.pos+1
	t := text{start: i}
	for i < len(data) {
		c := data[i]
		if plain[c] {
			i++
			continue
		}
		switch {
		case c == '"':
			t.end, s.pos = i, i+1
			return t, nil
		case c == '\\':
			t.escaped = true
			s.pos = i
			n, p := s.escape()
			if p != nil {
				return t, p
			}
			i += n
		case c == 0:
			s.pos = i
			return t, s.fail(RuleNUL, "NUL is not allowed in a string")
		case c < 0x20:
			s.pos = i
			return t, s.fail(RuleSyntax, "a control character must be escaped in a string")
		default:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				s.pos = i
				return t, s.fail(RuleUTF8, "the text is not valid UTF-8")
			}
			i += n
		}
	}
	s.pos = len(data)
	return t, s.unexpected("the end of a string")
}

// escape checks one escape (a surrogate pair is one) and returns its length in
// bytes. The scanner is at the backslash.
func (s *scanner) escape() (int, *problem) {
	rest := s.data[s.pos:]
	if len(rest) < 2 {
		return 0, s.fail(RuleSyntax, "the body ends inside an escape")
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, s.fail(RuleSyntax, "an unknown escape in a string")
	}
	r, ok := hex4(rest)
	switch {
	case !ok:
		return 0, s.fail(RuleSyntax, `four hexadecimal digits are expected after \u`)
	case r == 0:
		return 0, s.fail(RuleNUL, "NUL is not allowed in a string")
	case !utf16.IsSurrogate(r):
		return 6, nil
	}
	low, ok := hex4(rest[6:])
	if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
		return 0, s.fail(RuleSurrogate, "a surrogate escape has no partner")
	}
	return 12, nil
}

// hex4 reads \uXXXX at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// unescape appends the meaning of a checked string literal's inside to dst.
func unescape(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		if src[i] != '\\' {
			dst = append(dst, src[i])
			i++
			continue
		}
		if src[i+1] != 'u' {
			dst = append(dst, shortEscape(src[i+1]))
			i += 2
			continue
		}
		r, _ := hex4(src[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			low, _ := hex4(src[i:])
			r = utf16.DecodeRune(r, low)
			i += 6
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// shortEscape returns the byte that \c means.
func shortEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}
