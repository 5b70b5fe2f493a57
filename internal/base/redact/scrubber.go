package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Lengths in bytes. A shorter form is not looked for, because it would also be
// found where there is no secret.
const (
	minSecret   = 4
	minFragment = 6 // base64 of the secret inside a longer base64 text
	// minPrefix is the shortest beginning of a secret that is looked for, for echoes that were
	// cut.
	minPrefix = 12
)

// Scrubber replaces known secrets. It is immutable and safe for concurrent use;
// the zero value and nil find nothing.
type Scrubber struct {
	finder finder
}

// NewScrubber returns a Scrubber for the secrets. It finds each of them plain, in upper or lower
// case, in base64 (standard and URL alphabet, padded or not, inside a longer base64 text, with
// line breaks, and encoded twice), in hex, percent-encoded, JSON-escaped and HTML-escaped. It
// finds the last three also where only some characters are escaped, inside a JSON string, and
// with three layers of escapes around each other. Of a plain secret it finds every beginning of
// 12 bytes or more. Secrets of fewer than 4 bytes are ignored.
func NewScrubber(secrets ...string) *Scrubber {
	var patterns [][]byte
	cut := map[string]string{}
	for _, secret := range secrets {
		patterns = appendForms(patterns, secret)
		if trimmed := strings.TrimSpace(secret); trimmed != secret {
			patterns = appendForms(patterns, trimmed)
		}
	}
	for _, secret := range secrets {
		if len(secret) > minPrefix {
			patterns = append(patterns, []byte(secret[:minPrefix]))
			cut[secret[:minPrefix]] = secret
		}
	}
	f := newFinder(patterns)
	f.cut = cut
	return &Scrubber{finder: f}
}

// appendForms appends the forms of a secret that unescaping does not turn into its
// plain text.
func appendForms(list [][]byte, secret string) [][]byte {
	if len(secret) < minSecret {
		return list
	}
	list = append(list, []byte(secret))
	if strings.Contains(secret, " ") { // form encoding; the rest of it is percent-decoded
		list = append(list, []byte(strings.ReplaceAll(secret, " ", "+")))
	}
	for _, other := range []string{strings.ToUpper(secret), strings.ToLower(secret)} {
		if other != secret && len(other) >= minSecret {
			list = append(list, []byte(other))
		}
	}
	lower := hex.EncodeToString([]byte(secret))
	list = append(list, []byte(lower))
	if upper := strings.ToUpper(lower); upper != lower {
		list = append(list, []byte(upper))
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		whole := enc.EncodeToString([]byte(secret))
		list = append(list, []byte(whole))
		if raw := strings.TrimRight(whole, "="); raw != whole {
			list = append(list, []byte(raw))
		}
		if len(secret) < minFragment {
			continue
		}
		for shift := range 3 {
			list = append(list, fragment(enc, secret, shift))
			if inner := string(fragment(enc, secret, 0)); len(inner) >= minFragment {
				list = append(list, fragment(enc, inner, shift)) // encoded twice
			}
		}
	}
	return list
}

// fragment returns the base64 characters that depend on the secret alone where
// shift bytes (modulo 3) precede it in the encoded text.
func fragment(enc *base64.Encoding, secret string, shift int) []byte {
	padded := append(make([]byte, shift, shift+len(secret)+2), secret...)
	bits := 8 * len(padded)
	text := enc.EncodeToString(append(padded, 0, 0))
	return []byte(text[(8*shift+5)/6 : bits/6])
}

// Scrub returns text with each secret replaced by "[redacted]". What was valid
// JSON stays valid JSON: a number with a secret in it becomes the string
// "[redacted]". It returns text itself where there is nothing to replace, and never
// changes it.
func (s *Scrubber) Scrub(text []byte) []byte {
	if s == nil {
		return text
	}
	spans := s.find(text)
	switch {
	case len(spans) == 0:
		return text
	case json.Valid(text):
		return scrubJSON(text, spans)
	}
	out := make([]byte, 0, len(text))
	from := 0
	for _, sp := range spans {
		out = append(append(out, text[from:sp.from]...), Redacted...)
		from = sp.to
	}
	return append(out, text[from:]...)
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

// find returns where secrets are, in order, without overlaps.
func (s *Scrubber) find(text []byte) []span {
	if s.finder.empty() {
		return nil
	}
	spans := s.finder.all(nil, text, span{0, len(text)})
	for _, d := range decoders {
		spans = append(spans, s.decoded(text, d, 1)...)
	}
	return merged(spans)
}

// merged returns the spans in order, without overlaps.
func merged(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := spans[:1]
	for _, sp := range spans[1:] {
		if last := &out[len(out)-1]; sp.from < last.to {
			last.to = max(last.to, sp.to)
		} else {
			out = append(out, sp)
		}
	}
	return out
}

// maxLayers is how many ways of escaping around each other are undone.
const maxLayers = 3

// decoded returns the secrets in text as decoder d reads it, and as the decoders that may be
// inside d's escapes read that.
func (s *Scrubber) decoded(text []byte, d decoder, layer int) []span {
	if bytes.IndexByte(text, d.marker) < 0 {
		return nil
	}
	plain := d.decode(text, s.finder.longest())
	found := s.finder.inWindows(plain)
	if layer < maxLayers {
		for _, inner := range decoders {
			if d.marker == '\\' || (d.marker == '%' && inner.marker == '%') {
				found = append(found, s.decoded(plain.text, inner, layer+1)...)
			}
		}
	}
	return d.locate(text, merged(found))
}
