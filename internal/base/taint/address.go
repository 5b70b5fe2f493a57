package taint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// address finds URLs, mail addresses, names of hosts with what follows them, and addresses in brackets. It
// finds too much rather than too little: "e.g" is one as well.
var address = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*:/*[^\s"'<>]+` +
	`|[^\s"'<>@/:,;()]+@[^\s"'<>]+` +
	`|` + label + `(?:[.。．｡․﹒]` + label + `)+[^\s"'<>]*` +
	`|\[[0-9a-f:.]+\][^\s"'<>]*`)

const label = `[\p{L}\p{N}\p{M}\p{So}\p{Cf}_-]+`

// closing are signs that end a sentence or a bracket, and may stand at once after an address.
const closing = ".,;:!?)]}*。、，！？）」"

// named adds the addresses that a text of people names, as written and without one closing sign.
func named(text string, to map[string]bool) {
	for _, found := range address.FindAllString(text, -1) {
		to[compared(found)] = true
		if last, size := utf8.DecodeLastRuneInString(found); strings.ContainsRune(closing, last) {
			to[compared(found[:len(found)-size])] = true
		}
	}
	delete(to, "")
}

// compared returns the form in which addresses are compared: without http(s)://, without one slash at the
// end, and with what stands before path and query in lower case.
func compared(text string) string {
	if scheme, rest, has := strings.Cut(text, "://"); has && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")) {
		text = rest
	}
	host := len(text)
	if i := strings.IndexAny(text, `/?#\`); i >= 0 {
		host = i
	}
	return strings.TrimSuffix(strings.ToLower(text[:host])+text[host:], "/")
}

// plain is an amount, a date or a time, which have the form of an address.
var plain = regexp.MustCompile(`^(?:[+-]?[0-9]{1,9}(?:,[0-9]{3})*\.[0-9]{1,2}` +
	`|[0-3]?[0-9]\.[01]?[0-9]\.(?:19|20)[0-9]{2}` +
	`|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)$`)

func isPlain(word string) bool { return plain.MatchString(strings.Trim(word, "(),;:.!?€$£")) }

var (
	scheme  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:\S`)
	slashes = regexp.MustCompile(`[/\\]{2}`)
	// host is a beginning that programs may take for a host: with a dot or an escape in it, or the one number
	// that stands for four. A shorter number is no public address.
	host = regexp.MustCompile(`(?i)[^.]\.[^.]|%[0-9a-f]{2}|^(?:0x[0-9a-f]+|[0-9]{8,}):`)
	// number is followed by a path.
	number = regexp.MustCompile(`(?i)^(?:0x[0-9a-f]+|[0-9]{8,})$`)
)

// mayReach reports whether a program may take the text, or a part of it, for an address. Programs forgive
// much, so it does not ask whether the address is valid.
func mayReach(text string) bool {
	words := strings.FieldsFunc(text, unicode.IsSpace)
	kept := words[:0]
	for _, word := range words {
		if !isPlain(word) {
			kept = append(kept, word)
		}
	}
	if len(kept) == 0 {
		return false
	}
	if rest := strings.Join(kept, " "); address.MatchString(rest) || slashes.MatchString(rest) || strings.Contains(rest, "@") {
		return true
	}
	all := strings.TrimFunc(strings.Map(seen, norm.NFKC.String(text)), func(r rune) bool { return r <= ' ' })
	begin, isLonger := all, false
	if i := strings.IndexAny(all, `/?#\`); i >= 0 {
		begin, isLonger = all[:i], true
	}
	if slashes.MatchString(all) || isLonger && number.MatchString(begin) {
		return true
	}
	// No host has a space in it.
	return !strings.ContainsFunc(begin, unicode.IsSpace) && (scheme.MatchString(all) || host.MatchString(begin))
}

// seen leaves out the letters that programs leave out of an address.
func seen(r rune) rune {
	if r == '\t' || r == '\n' || r == '\r' || unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// Texts returns the texts of a JSON value, names of members among them, also of those that stand twice; nil
// where it cannot be read.
func Texts(value json.RawMessage) []string {
	list, _ := texts(value)
	return list
}

func texts(value json.RawMessage) (list []string, ok bool) {
	if len(value) == 0 {
		return nil, true
	}
	if !json.Valid(value) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber() // a number of any size is no reason to read nothing
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return list, true
		}
		if err != nil {
			return nil, false
		}
		if text, is := token.(string); is {
			list = append(list, text)
		}
	}
}

// Unreadable is what Unnamed returns of a value that cannot be read.
const Unreadable = "an address that cannot be read"

// Unnamed returns the first address in the texts of a JSON value that no other text names. Each text of the
// value that may reach an address counts as a whole: the very address, with its path and query, because
// these tell its owner something. "" where there is none.
func Unnamed(value json.RawMessage, others ...string) string {
	list, ok := texts(value)
	if !ok {
		return Unreadable
	}
	var known map[string]bool
	for _, text := range list {
		if !mayReach(text) {
			continue
		}
		if known == nil {
			known = map[string]bool{}
			for _, other := range others {
				named(other, known)
			}
		}
		if !known[compared(text)] {
			return shown(text, known)
		}
	}
	return ""
}

// shown returns what people read of a text that names no known address: the first unknown one in it, or all
// of it. It is one word, so that it cannot pass for a sentence of ours.
func shown(text string, known map[string]bool) string {
	for _, found := range address.FindAllString(text, -1) {
		if found = compared(found); found != "" && !known[found] {
			text = found
			break
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return '_'
		}
		return r
	}, text)
	return strings.TrimSuffix(text, "/")
}
