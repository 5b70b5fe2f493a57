package customer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// What a customer is found by: at most maxWords words of the name, and the first maxTerm bytes
// of each text. A cursor contains a term, so a term is short.
const (
	maxWords = 8
	maxTerm  = 120
)

// terms returns the texts whose beginnings find the customer: the address, its domain, the
// number, the external id, the name and its words.
func (c Customer) terms() []string {
	var list []string
	add := func(text string) {
		if text = folded(text); text != "" && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	if c.Email != nil {
		add(*c.Email)
		_, domain, _ := strings.Cut(*c.Email, "@")
		add(domain)
	}
	for _, text := range []*string{c.Phone, c.ExternalID, c.Name} {
		if text != nil {
			add(*text)
		}
	}
	if c.Name != nil {
		words := strings.Fields(*c.Name)
		for _, word := range words[:min(len(words), maxWords)] {
			add(word)
		}
	}
	return list
}

// folded returns a text as terms have it: in lower case, with single spaces, at most maxTerm
// bytes.
func folded(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if len(text) <= maxTerm {
		return text
	}
	end := maxTerm
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
