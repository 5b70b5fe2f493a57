// Package language says in which language a text is written. It goes by the script, by frequent words
// of common languages, and where neither decides, by the letter triples of whatlanggo, where these are
// sure. The messages to agents call it. It keeps about 100 KiB of tables, and no model.
package language

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"
)

// Language is a language by its code of ISO 639-1 and its English name.
type Language struct{ Code, Name string }

// mostRunes is how much of a text is looked at.
const mostRunes = 1000

// noise are addresses, ids and numbers: they have no language.
var noise = regexp.MustCompile(`\S*[0-9@_]\S*|\S*://\S*`)

// Of returns the language of a text; ok is false where it has none, or too little of one.
func Of(text string) (l Language, ok bool) {
	if runes := []rune(text); len(runes) > mostRunes {
		text = string(runes[:mostRunes])
	}
	text = noise.ReplaceAllString(text, " ")
	switch whatlanggo.DetectScript(text) {
	case nil:
		return l, false
	case unicode.Latin:
		if code, sure := byWords(text, latin); sure {
			return of(code), true
		}
	case unicode.Cyrillic:
		if code, sure := byLetters(text, cyrillic); sure {
			return of(code), true
		}
		if code, sure := byWords(text, slavic); sure {
			return of(code), true
		}
	case unicode.Arabic:
		if code, sure := byLetters(text, arabic); sure {
			return of(code), true
		}
		return of("ar"), true
	}
	info := whatlanggo.Detect(text)
	if code := info.Lang.Iso6391(); code != "" && (info.IsReliable() || alone[info.Lang]) {
		return of(code), true
	}
	return l, false
}

// alone are languages of which each has a script of its own, nearly.
//
//nolint:gochecknoglobals // an immutable table
var alone = map[whatlanggo.Lang]bool{
	whatlanggo.Ell: true, whatlanggo.Heb: true, whatlanggo.Tha: true, whatlanggo.Kor: true, whatlanggo.Jpn: true, whatlanggo.Cmn: true,
	whatlanggo.Kat: true, whatlanggo.Hin: true, whatlanggo.Ben: true, whatlanggo.Tam: true, whatlanggo.Tel: true, whatlanggo.Kan: true,
	whatlanggo.Mal: true, whatlanggo.Guj: true, whatlanggo.Pan: true, whatlanggo.Sin: true, whatlanggo.Khm: true, whatlanggo.Mya: true, whatlanggo.Amh: true,
}

func of(code string) Language {
	if name, known := names[code]; known {
		return Language{code, name}
	}
	return Language{code, code}
}

// byWords returns the language whose frequent words the text has most of. sure: no other has as many.
func byWords(text string, lexicons map[string]map[string]bool) (code string, sure bool) {
	seen := map[string]bool{}
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		seen[word] = true
	}
	best, second := 0, 0
	for lang, words := range lexicons {
		n := 0
		for word := range seen {
			if words[word] {
				n++
			}
		}
		switch {
		case n > best:
			best, second, code = n, best, lang
		case n > second:
			second = n
		}
	}
	return code, best > second
}

// byLetters returns the language of the first letter that only one language has.
func byLetters(text string, letters map[rune]string) (code string, sure bool) {
	for _, r := range strings.ToLower(text) {
		if code, sure = letters[r]; sure {
			return code, true
		}
	}
	return "", false
}
