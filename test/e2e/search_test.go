package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// search finds a text in the forms in which it could leak: plain, base64 at each
// alignment, hex in both cases, URL-encoded.
type search struct{ forms map[string][]byte }

func newSearch(text string) search {
	forms := map[string][]byte{
		"plain": []byte(text),
		"hex":   []byte(hex.EncodeToString([]byte(text))), "HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(text)))),
		"url query": []byte(url.QueryEscape(text)), "url path": []byte(url.PathEscape(text)),
	}
	for shift := range 3 {
		// Of the text after shift other bytes, the characters that depend on it alone.
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), text...))
		from, to := (8*shift+5)/6, 8*(shift+len(text))/6
		forms["base64 at "+string(rune('0'+shift))] = []byte(encoded[from:to])
		urlEncoded := base64.RawURLEncoding.EncodeToString(append(make([]byte, shift), text...))
		forms["base64url at "+string(rune('0'+shift))] = []byte(urlEncoded[from:to])
	}
	seen := map[string]bool{}
	for name, form := range forms { // most forms of a plain word are the same
		if seen[string(form)] {
			delete(forms, name)
		}
		seen[string(form)] = true
	}
	return search{forms}
}

// in names the forms that data contains.
func (s search) in(data []byte) (found []string) {
	for name, form := range s.forms {
		if bytes.Contains(data, form) {
			found = append(found, name)
		}
	}
	return found
}
