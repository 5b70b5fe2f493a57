// Package language says in which language a text is written, and tells models in which one to answer. It
// goes by the script, by frequent words and letters of common languages, and where these do
// not decide, by the letter triples of whatlanggo, where these are sure. The messages to agents call it.
// It keeps about 200 KiB of tables, and no model.
package language

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"
)

// Language is a language by its code of ISO 639-1 and its English name.
type Language struct{ Code, Name string }

// mostRunes is how much of a text is looked at.
const mostRunes = 1000

// noise are addresses, ids and numbers: they have no language. They end where a script begins that is
// written without spaces, or adds endings to ids: "ord_1001はどこですか" asks in Japanese.
var noise = regexp.MustCompile(strings.ReplaceAll(`W*[0-9@_]W*|W*://W*`, "W", inWord))

const inWord = `[^\s\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\x{3000}-\x{303F}\x{30FC}\x{FF00}-\x{FFEF}]`

// Of returns the language of a text; ok is false where it has none, or too little of one.
func Of(text string) (l Language, ok bool) {
	text = spokenIn(text)
	if l, ok = inWords(text); !ok || hardly(text, l.Code) {
		return Language{}, false
	}
	return l, true
}

// inWords is Of for a text that says something: it is not only the name of a product.
func inWords(text string) (l Language, ok bool) {
	code, _ := of(text)
	if isOther(text) || !supported(code) {
		return Language{}, false
	}
	return named(code)
}

// Guess returns the language of a message of a session whose language has the code, or "" for none. It is
// that of the message where it is sure, otherwise that of the session where the message may be in it or
// says nothing, otherwise the likeliest one. ok is false where nothing is likely.
func Guess(message, session string) (l Language, ok bool) {
	text := spokenIn(message)
	code, near := of(text)
	t := tables[scriptOf(text)]
	switch {
	case isOther(text) && (session == "" || len(apart(text)) >= leastGuessed):
		return Language{}, false
	case code != "" && t.mayBe(session, code, text):
		return named(session)
	case code != "":
		return named(code)
	}
	nothing := len(near) == 0 && t != nil && slices.Contains(t.codes, session)
	inHan := t == nil && len(near) > 0
	if nothing || slices.Contains(near, session) || session != "" && !inHan && len(strings.Fields(text)) < leastGuessed {
		return named(session)
	}
	if inHan {
		return named(near[0])
	}
	if l, ok := named(likeliest(text, near)); ok {
		return l, true
	}
	return named(firstOf[scriptOf(text)])
}

// firstOf are the languages that a text is guessed to be in by its script alone.
//
//nolint:gochecknoglobals // an immutable table
var firstOf = map[*unicode.RangeTable]string{unicode.Arabic: "ar", unicode.Devanagari: "hi"}

// supported reports whether the tables or a script decide about a language.
func supported(code string) bool {
	for _, t := range tables {
		if slices.Contains(t.codes, code) {
			return true
		}
	}
	for _, of := range alone {
		if of == code {
			return true
		}
	}
	return code == "zh" || code == "ja"
}

// Surely is Of for a message of three words at least: one word that languages share is no ground to ask
// for another reply. Scripts of one language decide with a word.
func Surely(message string) (l Language, ok bool) {
	text := spokenIn(message)
	if tables[scriptOf(text)] != nil && len(apart(text)) < leastGuessed {
		return l, false
	}
	return Of(message)
}

// leastGuessed is how many words a message has that is guessed against the language of its session.
const leastGuessed = 3

// spokenIn returns what of a text has a language.
func spokenIn(text string) string {
	if runes := []rune(text); len(runes) > mostRunes {
		text = string(runes[:mostRunes])
		// A part of a word is a word of another language.
		if at := strings.LastIndexFunc(text, unicode.IsSpace); at > len(text)/2 {
			text = text[:at]
		}
	}
	text = noise.ReplaceAllString(code.ReplaceAllString(text, " "), " ")
	if own := quotes.ReplaceAllString(text, " "); len(apart(own)) >= leastGuessed { // not what others wrote
		return own
	}
	return text
}

// tables tell the languages of a script apart.
//
//nolint:gochecknoglobals // an immutable table
var tables = map[*unicode.RangeTable]*table{unicode.Latin: latin, unicode.Cyrillic: cyrillic, unicode.Arabic: arabic, unicode.Devanagari: devanagari}

// of returns the language of a text where it is sure, and otherwise those that it may be in.
func of(text string) (code string, near []string) {
	script := scriptOf(text)
	if script == unicode.Han || script == unicode.Hiragana || script == unicode.Katakana {
		return ofHan(text)
	}
	t := tables[script]
	if t == nil {
		if code = alone[script]; code == "" && script != nil {
			code, _ = byTriples(text)
		}
		return code, nil
	}
	scores := t.scores(text)
	best := t.best(scores)
	near = t.near(scores, best)
	one := len(near) == 1
	if one && !t.behind(scores, best) {
		return near[0], near
	}
	// Where few languages share a script, three letters in a row say nothing that words do not say.
	is, sure := byTriples(text)
	sure = sure && len(t.codes) > few
	switch {
	case one && sure && is != near[0] && isBehind(scores[is], best):
		return "", append(near, is)
	case one:
		return near[0], near
	case sure && (best < least || scores[is] > best/2):
		return is, near
	}
	return "", near
}

// few is how many languages of a script the triples of letters do not decide about.
const few = 3

// byTriples returns the language of a text by its triples of letters, and whether it is sure.
func byTriples(text string) (code string, sure bool) {
	info := whatlanggo.Detect(text)
	l, _ := named(info.Lang.Iso6391())
	return l.Code, info.IsReliable()
}

// likeliest returns which of the languages a text is in by its triples of letters; "" for none.
func likeliest(text string, near []string) string {
	list := map[whatlanggo.Lang]bool{}
	for lang := range whatlanggo.Langs {
		if l, _ := named(lang.Iso6391()); slices.Contains(near, l.Code) {
			list[lang] = true
		}
	}
	if len(list) == 0 {
		return ""
	}
	l, _ := named(whatlanggo.DetectLangWithOptions(text, whatlanggo.Options{Whitelist: list}).Iso6391())
	return l.Code
}

// Named returns the language with a code; ok is false where the code is unknown.
func Named(code string) (l Language, ok bool) { return named(code) }

// IsKnown reports whether the code is that of a language that agents can be told of.
func IsKnown(code string) bool { return names[code] != "" }

func named(code string) (Language, bool) {
	switch code {
	case "":
		return Language{}, false
	case "nb", "nn":
		code = "no"
	}
	return Language{code, cmp.Or(names[code], code)}, true
}

// alone are scripts that nearly one language has.
//
//nolint:gochecknoglobals // an immutable table
var alone = map[*unicode.RangeTable]string{
	unicode.Greek: "el", unicode.Hebrew: "he", unicode.Thai: "th", unicode.Hangul: "ko",
	unicode.Georgian: "ka", unicode.Armenian: "hy", unicode.Bengali: "bn", unicode.Tamil: "ta", unicode.Telugu: "te", unicode.Kannada: "kn", unicode.Malayalam: "ml",
	unicode.Gujarati: "gu", unicode.Gurmukhi: "pa", unicode.Oriya: "or", unicode.Sinhala: "si", unicode.Khmer: "km", unicode.Lao: "lo", unicode.Myanmar: "my",
	unicode.Ethiopic: "am",
}

// scripts are those that are told apart.
//
//nolint:gochecknoglobals // an immutable table
var scripts = []*unicode.RangeTable{
	unicode.Latin, unicode.Cyrillic, unicode.Arabic, unicode.Devanagari, unicode.Greek, unicode.Hebrew, unicode.Thai, unicode.Hangul, unicode.Hiragana, unicode.Katakana,
	unicode.Han, unicode.Georgian, unicode.Armenian, unicode.Bengali, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Gujarati,
	unicode.Gurmukhi, unicode.Oriya, unicode.Sinhala, unicode.Khmer, unicode.Lao, unicode.Myanmar, unicode.Ethiopic,
}

// latinWeight is what a letter in Latin script counts beside one of another script: names of products
// are written in it everywhere.
const latinWeight = 0.4

// scriptOf returns the script that a text has most letters of; nil where it has none.
func scriptOf(text string) *unicode.RangeTable {
	counts := make([]float64, len(scripts))
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		if i := slices.IndexFunc(scripts, func(t *unicode.RangeTable) bool { return unicode.Is(t, r) }); i >= 0 {
			counts[i]++
		}
	}
	counts[0] *= latinWeight
	best := 0
	for i, n := range counts {
		if n > counts[best] {
			best = i
		}
	}
	if counts[best] == 0 {
		return nil
	}
	return scripts[best]
}

// What tells languages apart.
const (
	// foreign is taken from a language for each letter that it does not have and others have.
	foreign = 0.7
	// ofLetter is what a letter counts beside a word.
	ofLetter = 0.6
	// least is the score without which a language is not sure, and lead how far the next one is behind.
	least = 0.15
	lead  = 0.12
	// aWord is what a word counts that no other language has. It alone is no sign of a switch.
	aWord = 1
)

// behind reports whether the best language is less than a word before another one.
func (t *table) behind(scores map[string]float64, best float64) bool {
	return slices.ContainsFunc(t.codes, func(code string) bool { return scores[code] < best && isBehind(scores[code], best) })
}

func isBehind(score, best float64) bool { return score > 0 && best-score < aWord }

// mayBe reports whether a text that seems to be in one language may be in that of its session: at most
// a word speaks against one that is much like it, and less against another. A nil table has one language.
func (t *table) mayBe(session, code, text string) bool {
	if t == nil || session == "" || session == code {
		return false
	}
	most := 2 * lead
	if alike(session, code) {
		most = aWord
	}
	scores := t.scores(text)
	return scores[session] > 0 && scores[code]-scores[session] <= most
}

// best returns the highest score; 0 for none.
func (t *table) best(scores map[string]float64) (best float64) {
	for _, code := range t.codes {
		best = max(best, scores[code])
	}
	return best
}

// near returns the languages that a text may be in: those with about the best score. One alone is sure.
func (t *table) near(scores map[string]float64, best float64) (codes []string) {
	for _, code := range t.codes {
		if best >= least && best-scores[code] < lead {
			codes = append(codes, code)
		}
	}
	return codes
}

// apart divides a text into its words.
func apart(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\''
	})
}

// wordsOf returns the words of a text in small letters.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '·' })
}

// scores returns how much a text has of each language.
func (t *table) scores(text string) map[string]float64 {
	text = strings.ToLower(text)
	scores := map[string]float64{}
	seen := map[string]bool{}
	for _, word := range wordsOf(text) {
		if seen[word] {
			continue
		}
		seen[word] = true
		for _, code := range t.words[word] {
			scores[code] += 1 / float64(len(t.words[word]))
		}
	}
	letters := map[rune]bool{}
	for _, r := range text {
		has := t.letters[r]
		if letters[r] || has == nil {
			continue
		}
		letters[r] = true
		for _, code := range t.codes {
			if slices.Contains(has, code) {
				scores[code] += ofLetter / float64(len(has))
			} else {
				scores[code] -= foreign
			}
		}
	}
	return scores
}
