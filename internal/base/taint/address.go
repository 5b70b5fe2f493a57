package taint

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// address finds URLs, names of hosts with what follows them, and addresses in brackets. It finds too much
// rather than too little: "e.g" is one as well.
var address = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*:/*[^\s"'<>]+|[\p{L}\p{N}_-]+(?:[.。．｡][\p{L}\p{N}_-]+)+[^\s"'<>]*|\[[0-9a-f:.]+\][^\s"'<>]*`)

// addresses returns those in a text, in the form in which they are compared: without http(s)://, the
// punctuation of a sentence and a last slash. What stands before the path is in lower case.
func addresses(text string) (list []string) {
	for _, found := range address.FindAllString(text, -1) {
		found = strings.TrimRight(found, ".,;:!?)]}/")
		if scheme, rest, has := strings.Cut(found, "://"); has && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")) {
			found = rest
		}
		host, path, has := strings.Cut(found, "/")
		if found = strings.ToLower(host); has {
			found += "/" + path
		}
		if found != "" {
			list = append(list, found)
		}
	}
	return list
}

// Texts returns the texts of a JSON value, names of members among them; nil where it cannot be read.
func Texts(value json.RawMessage) (texts []string) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return nil
	}
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, element := range v {
				add(element)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				texts = append(texts, name)
				add(v[name])
			}
		}
	}
	add(v)
	return texts
}

// Unnamed returns the first address in the texts of a JSON value that no other text names: the very
// address, with its path and query, because these tell its owner something. "" where there is none.
func Unnamed(value json.RawMessage, others ...string) string {
	var named map[string]bool
	for _, text := range Texts(value) {
		for _, one := range addresses(text) {
			if named == nil {
				named = map[string]bool{}
				for _, other := range others {
					for _, name := range addresses(other) {
						named[name] = true
					}
				}
			}
			if !named[one] {
				return one
			}
		}
	}
	return ""
}
