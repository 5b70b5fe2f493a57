package redact

import (
	"bytes"
	"html"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder undoes one way of escaping text. It leaves what is not an escape as it
// is.
type decoder struct {
	marker byte // every escape begins with it
	// escape reads the escape at the start of b, appends its meaning to dst and
	// returns the escape's length, 0 if there is no escape.
	escape func(dst, b []byte) ([]byte, int)
}

//nolint:gochecknoglobals // immutable table
var decoders = [...]decoder{
	{'\\', jsonEscape},
	{'%', percentEscape},
	{'&', htmlEscape},
	{'\r', lineBreak},
	{'\n', lineBreak},
}

// piece is a run of text that stands for itself, or one escape.
type piece struct {
	source span
	escape bool
}

// next returns the piece of text that begins at i, and dst with its meaning
// appended.
func (d decoder) next(dst, text []byte, i int) ([]byte, piece) {
	literal := bytes.IndexByte(text[i:], d.marker)
	if literal == 0 {
		longer, n := d.escape(dst, text[i:])
		if n > 0 {
			return longer, piece{span{i, i + n}, true}
		}
		literal = 1 // a marker that begins no escape
	}
	if literal < 0 {
		literal = len(text) - i
	}
	return append(dst, text[i:i+literal]...), piece{span{i, i + literal}, false}
}

// decoded is a text without its escapes. A match that touches no escape is found
// in the text itself, so windows says which parts to search.
type decoded struct {
	text    []byte
	windows []span
}

// decode returns text without escapes, with windows of reach bytes around the escapes.
func (d decoder) decode(text []byte, reach int) decoded {
	out := decoded{text: make([]byte, 0, len(text))}
	for i := 0; i < len(text); {
		from := len(out.text)
		var p piece
		out.text, p = d.next(out.text, text, i)
		i = p.source.to
		if !p.escape {
			continue
		}
		w := span{max(from-reach, 0), len(out.text) + reach}
		if n := len(out.windows); n > 0 && w.from <= out.windows[n-1].to {
			out.windows[n-1].to = w.to
		} else {
			out.windows = append(out.windows, w)
		}
	}
	return out
}

// locate returns the spans of text that spans of the decoded text came from. Both
// are in the order of their starts.
func (d decoder) locate(text []byte, spans []span) []span {
	found := make([]span, len(spans))
	var meaning []byte
	open := 0 // the first span that does not end before the place reached
	for i, at := 0, 0; i < len(text) && open < len(spans); {
		var p piece
		meaning, p = d.next(meaning[:0], text, i)
		end := at + len(meaning)
		for k := open; k < len(spans) && spans[k].from < end; k++ {
			if spans[k].from >= at {
				found[k].from = p.place(spans[k].from - at).from
			}
			if at < spans[k].to && spans[k].to <= end {
				found[k].to = p.place(spans[k].to - 1 - at).to
			}
		}
		for open < len(spans) && spans[open].to <= end {
			open++
		}
		i, at = p.source.to, end
	}
	return found
}

// place returns where byte n of the piece's meaning came from.
func (p piece) place(n int) span {
	if p.escape {
		return p.source
	}
	return span{p.source.from + n, p.source.from + n + 1}
}

// lineBreak skips the line breaks in a long base64 text.
func lineBreak(dst, b []byte) ([]byte, int) {
	if bytes.HasPrefix(b, []byte("\r\n")) {
		return dst, 2
	}
	if b[0] == '\n' {
		return dst, 1
	}
	return dst, 0
}

func jsonEscape(dst, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return dst, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return append(dst, b[1]), 2
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	}
	r, ok := unicodeEscape(b)
	if !ok {
		return dst, 0
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), 6
	}
	low, ok := unicodeEscape(b[6:])
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		return utf8.AppendRune(dst, pair), 12
	}
	return dst, 0
}

// unicodeEscape reads \uXXXX at the start of b.
func unicodeEscape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n), err == nil
}

func percentEscape(dst, b []byte) ([]byte, int) {
	if len(b) < 3 {
		return dst, 0
	}
	n, err := strconv.ParseUint(string(b[1:3]), 16, 8)
	if err != nil {
		return dst, 0
	}
	return append(dst, byte(n)), 3
}

// maxEntity is the longest HTML entity that is decoded, in bytes.
const maxEntity = 12

func htmlEscape(dst, b []byte) ([]byte, int) {
	end := bytes.IndexByte(b[:min(len(b), maxEntity)], ';')
	if end < 2 || b[1] == ' ' {
		return dst, 0
	}
	entity := string(b[:end+1])
	meaning := html.UnescapeString(entity)
	if meaning == entity {
		return dst, 0
	}
	return append(dst, meaning...), end + 1
}
