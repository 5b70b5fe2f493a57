package language

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of one message, its language is the first of these that is known.
const (
	writes = "The customer's last message is in "
	goesOn = "The conversation was in "
	always = "You answer every customer, whatever they write and ask for, in "
	seems  = "The customer's last message seems to be in "
)

// unless leaves a wish for another language to the model, which reads it by itself.
const unless = ", unless the customer asks for another language"

// byEye is what a model is told of a message whose language is not known.
const byEye = "Answer in the language that the customer's last message is in."

// Advice returns what a model is told of the language of its answer to a message; "" where it has no
// words and nothing is known. It is the language of the message, otherwise that of the session before it,
// otherwise the one that the message may be in. A message in a language that is not supported is answered
// in that, as the model sees it. session is a code. Told reads it.
func Advice(message, session string) string {
	is, sure := Surely(message)
	l, ok := Guess(message, session)
	switch {
	case sure && is == l:
		return advice(writes, l, unless)
	case l.Code == session && ok:
		return advice(goesOn, l, unless)
	case ok:
		return seems + l.Name + ". Answer in the language that it is in."
	}
	text := spokenIn(message)
	if l, ok := Named(session); ok && !isOther(text) {
		return advice(goesOn, l, unless)
	}
	if scriptOf(text) != nil {
		return byEye
	}
	return ""
}

// Always returns what a model is told that answers in one language only. Told reads it.
func Always(l Language) string { return advice(always, l, "") }

// Says returns the code of the language that a message is surely in; "" for none. The session with the
// code keeps it.
func Says(message, session string) string {
	is, _ := Surely(message)
	if likely, _ := Guess(message, session); likely == is {
		return is.Code
	}
	return ""
}

func advice(why string, l Language, but string) string {
	return why + l.Name + ". Answer in " + l.Name + but + "."
}

var told = regexp.MustCompile(`(?m)^(?:` + writes + `|` + goesOn + `|` + always + `)\pL+\. Answer in (\pL+)(?:` + unless + `)?\.$`)

// Told returns the language in which a model was told to answer; ok is false for none.
func Told(advice string) (l Language, ok bool) {
	all := told.FindAllStringSubmatch(advice, -1)
	if len(all) == 0 {
		return l, false
	}
	found := all[len(all)-1]
	for _, code := range slices.Sorted(maps.Keys(names)) {
		if names[code] == found[1] {
			return named(code)
		}
	}
	return l, false
}

// What of a reply has no language: code, texts in quotes, addresses.
var (
	code   = regexp.MustCompile("(?s)```.*?(```|$)|`[^`]*`|<[^>]*>|\\{[^{}]*\\}")
	quotes = regexp.MustCompile(`"[^"]*"|“[^”]*”|«[^»]*»|„[^“]*“|「[^」]*」`)
)

// A reply with less than this is too short to be judged: words, or letters of scripts without blanks.
const (
	leastWords   = 5
	leastLetters = 10
)

// siblings are languages that are too near each other to tell that a reply is in the wrong one.
//
//nolint:gochecknoglobals // an immutable table
var siblings = []string{"no da sv", "hr sr sl bs", "cs sk", "ru uk be bg mk sr", "id ms jv", "hi mr ne", "es pt ca", "nl af", "tr az", "fa ur ar", "fi et"}

// Differs returns the language of a reply where it is surely another one than the wanted one. Code, ids,
// quotations, short replies and languages that are near each other are never surely another one.
func Differs(reply string, want Language) (is Language, surely bool) {
	text := quotes.ReplaceAllString(code.ReplaceAllString(reply, " "), " ")
	text = noise.ReplaceAllString(text, " ")
	words := apart(text)
	letters := 0
	for _, word := range words {
		if r, _ := utf8.DecodeRuneInString(word); unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar) {
			letters += utf8.RuneCountInString(word)
		}
	}
	if len(words) < leastWords && letters < leastLetters {
		return is, false
	}
	is, sure := inWords(spokenIn(text))
	all := []string{is.Code}
	if !sure {
		_, all = of(text) // none of these may be the wanted one
		is, sure = named(likeliest(text, all))
	}
	for _, code := range all {
		sure = sure && !alike(code, want.Code)
	}
	return is, sure
}

// alike reports whether two languages are one, or too near each other.
func alike(one, other string) bool {
	return one == other || slices.ContainsFunc(siblings, func(group string) bool {
		near := strings.Fields(group)
		return slices.Contains(near, one) && slices.Contains(near, other)
	})
}
