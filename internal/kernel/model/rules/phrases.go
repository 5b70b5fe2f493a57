package rules

import (
	_ "embed" // the sentences
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/kernel/language"
	"agentruntime/internal/kernel/model"
)

//go:embed phrases.txt
var phrasesFile string

// English is the language of phrases where there are none in another one.
const english = "en"

// phrases are the sentences of the model in one language.
type phrases struct {
	code string
	// told: the model was told the language of the customer. lacks is the language in which the customer should be answered, where there are no sentences.
	told  bool
	lacks string
	of    map[string]string
}

// book has the phrases by the codes of their languages.
//
//nolint:gochecknoglobals // it is read once
var book = sync.OnceValue(func() map[string]phrases {
	all := map[string]phrases{}
	var p phrases
	for line := range strings.Lines(phrasesFile) {
		line = strings.TrimRight(line, "\n")
		name, text, is := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			p = phrases{code: strings.Trim(line, "[]"), of: map[string]string{}}
			all[p.code] = p
		case is && !strings.HasPrefix(line, "#"):
			p.of[name] = text
		}
	}
	return all
})

// phrasesFor returns the sentences in the language that the model was told to answer in. Where it was
// told none, they are in the language of its last question, otherwise in English. They are in English
// where there are none in that language.
func phrasesFor(req model.Request) phrases {
	l, told := language.Likely(req.Advice)
	if !told {
		return lastAsked(req.Messages)
	}
	p, has := book()[l.Code]
	if !has {
		p, p.lacks = book()[english], l.Name
	}
	p.told = true
	return p
}

// lastAsked returns the sentences in the language of the last question of the model.
func lastAsked(messages []model.Message) phrases {
	for _, m := range slices.Backward(messages) {
		if m.Role != model.Assistant {
			continue
		}
		for _, name := range []string{"shall", "please"} {
			if p, is := isQuestion(name, m.Text); is {
				return p
			}
		}
		break
	}
	return book()[english]
}

// say returns a sentence with its values.
func (p phrases) say(name string, values ...any) string { return fmt.Sprintf(p.of[name], values...) }

// honest adds that the model has no sentences in the language of the customer.
func (p phrases) honest(text string) string {
	if p.lacks == "" || text == "" {
		return text
	}
	return text + " I have no sentences in " + p.lacks + ", so this is English."
}

// head is how a sentence begins, before its first value.
func (p phrases) head(name string) string {
	head, _, _ := strings.Cut(p.of[name], "%s")
	return head
}

// isQuestion reports whether a text is the question of that name, in any language, and returns the
// sentences of that.
func isQuestion(name, text string) (p phrases, is bool) {
	for _, code := range slices.Sorted(maps.Keys(book())) {
		if p = book()[code]; strings.HasPrefix(text, p.head(name)) {
			return p, true
		}
	}
	return phrases{}, false
}

// wanted returns the argument that a question has asked for.
func (p phrases) wanted(text string) string {
	rest := strings.TrimPrefix(text, p.head("please"))
	name, _, _ := strings.Cut(rest, ". ")
	return name
}

// plainWords returns a text in small letters, with single blanks and without other marks.
func plainWords(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\''
	}), " ")
}

// isOne reports whether a text is one of the words of that name, in any language. begins: it is enough
// that it begins with one.
func isOne(name, text string, begins bool) bool {
	for _, p := range book() {
		if p.has(name, text, begins) {
			return true
		}
	}
	return false
}

// has is isOne in one language.
func (p phrases) has(name, text string, begins bool) bool {
	text = plainWords(text)
	for word := range strings.SplitSeq(p.of[name], ", ") {
		word = plainWords(word)
		if word != "" && (text == word || begins && strings.HasPrefix(text, word+" ")) {
			return true
		}
	}
	return false
}

// agrees reports whether a text is a yes to a question in the language, perhaps with thanks. It may be in
// any language. A word that is a yes in another one, and means something else in this one, is none: "tak".
func (p phrases) agrees(text string) bool {
	if first, rest, two := strings.Cut(plainWords(text), " "); two && isOne("yes", first, false) && isOne("thanks", rest, false) {
		return true
	}
	return yes.MatchString(text) || isOne("yes", text, false) && !p.has("no", text, false) && !p.has("thanks", text, false)
}

// inEnglish returns a text with the English words for those of its language that verbs are called by. Its
// language is the one that it is written in, and the one that the model was told. Where neither is known,
// it may be any.
func (p phrases) inEnglish(text string) string {
	is, sure := language.Of(text)
	small := strings.ToLower(text)
	words := []string{text}
	for _, code := range slices.Sorted(maps.Keys(book())) {
		if code != is.Code && code != p.code && (sure || p.told) {
			continue
		}
		for term := range strings.SplitSeq(book()[code].of["terms"], ", ") {
			begin, english, is := strings.Cut(term, "=")
			if is && within(small, begin) && !slices.Contains(words, english) {
				words = append(words, english)
			}
		}
	}
	return strings.Join(words, " ")
}

// within reports whether a word of a text begins so. In scripts without blanks it may stand anywhere.
func within(text, begin string) bool {
	first, _ := utf8.DecodeRuneInString(begin)
	if unicode.In(first, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Arabic) {
		return strings.Contains(text, begin)
	}
	for at := 0; ; at += len(begin) {
		i := strings.Index(text[at:], begin)
		if i < 0 {
			return false
		}
		at += i
		if before, _ := utf8.DecodeLastRuneInString(text[:at]); !unicode.IsLetter(before) {
			return true
		}
	}
}
