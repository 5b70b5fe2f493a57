package language

import (
	_ "embed" // the words
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/runes"
	"golang.org/x/text/unicode/norm"
)

//go:embed words.txt
var wordsFile string

// What tells a language from others of its script: frequent words of messages, and letters beyond those
// that all of them have. What several languages have counts less for each of them.
//
//nolint:gochecknoglobals // immutable tables
var (
	lexicons   = lexiconsOf(wordsFile)
	latin      = lexicons["latin"]
	cyrillic   = lexicons["cyrillic"]
	arabic     = lexicons["arabic"]
	devanagari = lexicons["devanagari"]
)

// table has languages of one script by what tells them apart.
type table struct {
	words   map[string][]string
	letters map[rune][]string
	codes   []string
	// others are the languages of the script that are not supported; nil where a table has none.
	others *table
}

func newTable() *table { return &table{words: map[string][]string{}, letters: map[rune][]string{}} }

// lexiconsOf reads the tables of scripts.
func lexiconsOf(file string) map[string]*table {
	all := map[string]*table{}
	var script *table
	for line := range strings.Lines(file) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "[") {
			script = newTable()
			script.others = newTable()
			all[strings.Trim(line, "[]")] = script
		}
		code, has, is := strings.Cut(line, " = ")
		if !is {
			continue
		}
		t := script
		if other, is := strings.CutPrefix(code, "~"); is {
			code, t = other, script.others
		}
		words, letters, _ := strings.Cut(has, " | ")
		t.codes = append(t.codes, code)
		seen := map[string]bool{}
		for word := range strings.FieldsSeq(words) {
			for _, form := range []string{word, plain(word)} {
				if !seen[form] {
					t.words[form] = append(t.words[form], code)
				}
				seen[form] = true
			}
		}
		for _, r := range letters {
			t.letters[r] = append(t.letters[r], code)
		}
	}
	return all
}

// leastPlain is how many letters a word has that is known without its accents too.
const leastPlain = 4

// plain returns a word in Latin script as people write it who have no keyboard for its accents.
func plain(word string) string {
	if first, _ := utf8.DecodeRuneInString(word); !unicode.Is(unicode.Latin, first) || utf8.RuneCountInString(word) < leastPlain {
		return word
	}
	return runes.Remove(runes.In(unicode.Mn)).String(norm.NFD.String(word))
}

// names are English names of languages that agents are told of.
//
//nolint:gochecknoglobals // an immutable table
var names = map[string]string{
	"af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
	"da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish",
	"fr": "French", "gu": "Gujarati", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "ig": "Igbo",
	"is": "Icelandic", "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "lo": "Lao", "lt": "Lithuanian",
	"lv": "Latvian", "mg": "Malagasy", "mk": "Macedonian", "ml": "Malayalam", "mr": "Marathi", "ms": "Malay", "my": "Burmese", "nb": "Norwegian", "ne": "Nepali", "nl": "Dutch",
	"nn": "Norwegian", "no": "Norwegian", "ny": "Chewa", "or": "Oriya", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
	"rw": "Kinyarwanda", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sn": "Shona", "so": "Somali", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu",
	"th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese",
	"yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
}
