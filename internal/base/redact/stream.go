package redact

import (
	"bytes"
	"slices"
)

// maxEscape is the longest escape that a decoder reads, in bytes: an HTML entity, or two \uXXXX.
const maxEscape = 12

// mostHeld bounds the text that a Stream keeps back, in bytes.
const mostHeld = 64 << 10

// Stream takes secrets out of a text that comes in pieces. It is for one text and one goroutine.
type Stream struct {
	s    *Scrubber
	held []byte
	full bool
}

// Stream returns what scrubs one text.
func (s *Scrubber) Stream() *Stream { return &Stream{s: s} }

// Next returns what can be shown after the next piece. It keeps back the end of the text from where a
// secret may begin there, in any form that Scrub finds. Where more than 64 KiB would be kept back, it
// shows nothing more.
func (t *Stream) Next(piece string) string {
	if t.s == nil || t.s.finder.empty() {
		return piece
	}
	if t.full {
		return ""
	}
	t.held = append(t.held, piece...)
	to := t.s.begins(t.held)
	spans := t.s.find(t.held)
	for _, span := range slices.Backward(spans) {
		if span.from < to && to < span.to {
			to = span.from // one secret may begin inside another
		}
	}
	shown := string(t.s.Scrub(t.held[:to:to]))
	t.held = slices.Clone(t.held[to:])
	if t.full = len(t.held) > mostHeld; t.full {
		t.held = nil
	}
	return shown
}

// Rest returns what was kept back, at the end of the text.
func (t *Stream) Rest() string {
	rest := t.s.Scrub(t.held)
	t.held = nil
	return string(rest)
}

// begins returns from where the end of text may be the beginning of a secret, len(text) for nowhere.
func (s *Scrubber) begins(text []byte) int {
	at := s.finder.begins(text)
	for _, d := range decoders {
		at = min(at, s.beginsDecoded(text, d, 1))
	}
	return at
}

// beginsDecoded is begins for the text as decoder d reads it, and as the decoders that may be inside
// d's escapes read that.
func (s *Scrubber) beginsDecoded(text []byte, d decoder, layer int) int {
	if bytes.IndexByte(text, d.marker) < 0 {
		return len(text)
	}
	whole := text[:d.whole(text)] // the rest may be an escape that is not whole yet
	plain := d.decode(whole, 0).text
	at := s.finder.begins(plain)
	if layer < maxLayers {
		for _, inner := range decoders {
			if d.marker == '\\' || (d.marker == '%' && inner.marker == '%') {
				at = min(at, s.beginsDecoded(plain, inner, layer+1))
			}
		}
	}
	if at == len(plain) {
		return len(whole)
	}
	return d.locate(whole, []span{{at, len(plain)}})[0].from
}

// whole returns the length of the text without a beginning of an escape at its end.
func (d decoder) whole(text []byte) int {
	var meaning []byte
	for i := 0; i < len(text); {
		var p piece
		meaning, p = d.next(meaning[:0], text, i)
		if !p.escape && text[i] == d.marker && len(text)-i < maxEscape {
			return i
		}
		i = p.source.to
	}
	return len(text)
}

// begins returns from where the end of text is the beginning of a pattern, len(text) for nowhere.
func (f *finder) begins(text []byte) int {
	at := len(text)
	for _, pattern := range f.patterns {
		for from := max(0, len(text)-len(pattern)+1); from < at; from++ {
			if text[from] == pattern[0] && bytes.HasPrefix(pattern, text[from:]) {
				at = from
			}
		}
	}
	return at
}
