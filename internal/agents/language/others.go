package language

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Most languages are not supported, and share a script with one that is. What tells that a text is in one
// of them makes it unsure: the model then answers in the language that it sees itself.

// odd are signs of other languages in scripts of which one language is supported.
//
//nolint:gochecknoglobals // immutable tables
var odd = map[*unicode.RangeTable]*regexp.Regexp{
	unicode.Hebrew:   regexp.MustCompile(`[\x{05F0}-\x{05F2}\x{FB1F}]|[\x{05D0}\x{05D9}]\x{05B7}|\x{05D0}\x{05B8}|\x{05F2}\x{05B7}|(?:^|\s)(?:איז|נישט|ניט|דאס|וואס|צוריק|האב|האט|קען|זייט)(?:\s|$)`), // Yiddish
	unicode.Bengali:  regexp.MustCompile(`[\x{09F0}\x{09F1}]`),                                                                                                                                        // Assamese
	unicode.Ethiopic: regexp.MustCompile(`[\x{12A3}\x{1250}]\p{Ethiopic}|እዩ|ኣ`),                                                                                                                       // Tigrinya
}

// bases are the letters that the tables of a script take as given.
//
//nolint:gochecknoglobals // immutable tables
var bases = map[*unicode.RangeTable][2]rune{unicode.Latin: {'a', 'z'}, unicode.Cyrillic: {'а', 'я'}, unicode.Arabic: {'ء', 'ي'}}

// shared are further letters that several of its languages have.
const shared = "ﻻیۂۓۀيآؤئ"

// isOther reports whether a text is rather in a language that is not supported: it has letters that no
// supported one of its script has, or its words are those of another one.
func isOther(text string) bool {
	script := scriptOf(text)
	t := tables[script]
	if t == nil {
		signs := odd[script]
		return signs != nil && signs.MatchString(text)
	}
	base, has := bases[script]
	for _, r := range strings.ToLower(text) {
		if has && unicode.IsLetter(r) && unicode.Is(script, r) && (r < base[0] || r > base[1]) && t.letters[r] == nil && !strings.ContainsRune(shared, r) {
			return true
		}
	}
	most := t.best(t.scores(text))
	for _, score := range t.otherScores(text) {
		if score >= aWord && score > most-lead {
			return true
		}
	}
	return false
}

// hardly reports whether a text of three words at least in Latin letters has one word of the language and no
// other sign of it, as the name of a product may.
func hardly(text, code string) bool {
	if scriptOf(text) != unicode.Latin || len(apart(text)) < leastGuessed {
		return false
	}
	words := map[string]bool{}
	for _, word := range wordsOf(text) {
		if slices.Contains(latin.words[word], code) {
			words[word] = true
		}
	}
	return len(words) == 1 && !strings.ContainsFunc(strings.ToLower(text), func(r rune) bool { return slices.Contains(latin.letters[r], code) })
}

// otherScores are those of the languages that are not supported. What a supported one has too counts less.
func (t *table) otherScores(text string) map[string]float64 {
	scores, seen := map[string]float64{}, map[string]bool{}
	for _, word := range wordsOf(text) {
		if seen[word] {
			continue
		}
		seen[word] = true
		for _, code := range t.others.words[word] {
			scores[code] += 1 / float64(len(t.words[word])+1)
		}
	}
	for r, codes := range t.others.letters {
		if strings.ContainsRune(text, r) {
			for _, code := range codes {
				scores[code] += ofLetter / float64(len(t.letters[r])+1)
			}
		}
	}
	return scores
}
