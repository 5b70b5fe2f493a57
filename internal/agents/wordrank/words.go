package wordrank

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of one text. What is beyond is not read.
const (
	mostBytes = 16 << 10
	mostWords = 1024
	// mostWord is how many bytes of a word are compared.
	mostWord = 64
)

// Word is a word of a text.
type Word struct {
	// Text is the word in small letters, as the text has it; a pair of characters in languages
	// without blanks.
	Text string
	// Key is what the word is compared by: without accents and English endings. Words are the same
	// where their keys are.
	Key string
	// Function: the word says nothing about the subject, such as "the".
	Function bool
	// joined: two parts of a compound as one word, such as email of e-mail.
	joined bool
}

// Words returns the words of a text in their order, with repetitions: at most 1,024, of the first
// 16 KiB.
func Words(text string) []Word {
	s := splitter{}
	text = folded(limited(text))
	s.text(text)
	return s.words
}

func limited(text string) string {
	if len(text) > mostBytes {
		text = text[:mostBytes]
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, " ")
	}
	return text
}

// folded returns the text without accents, and with one form of each character.
func folded(text string) string {
	ascii := true
	for i := range len(text) {
		ascii = ascii && text[i] < utf8.RuneSelf
	}
	if ascii {
		return text
	}
	apart := norm.NFKD.String(text)
	if len(apart) > 4*mostBytes {
		apart = limited(apart) // few characters stand for many
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x300 && r <= 0x36f: // accents of European letters
			return -1
		case r == 'ß':
			return 's'
		}
		return r
	}, apart)
	return norm.NFC.String(plain)
}

// kind is what a character is for the borders of words.
type kind int

const (
	gap kind = iota
	joint
	lower // small letters, digits, and letters without case
	upper
	paired // of a language without blanks
)

func kindOf(r rune) kind {
	switch {
	case r == '_' || r == '-' || r == '‐':
		return joint
	case r < utf8.RuneSelf:
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return lower
		case r >= 'A' && r <= 'Z':
			return upper
		}
		return gap
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || r == 'ー':
		return paired
	case unicode.IsUpper(r):
		return upper
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
		return lower
	}
	return gap
}

type splitter struct {
	words []Word
	// before is the last part of the compound that is being read, "" at its beginning.
	before string
}

func (s *splitter) text(text string) {
	runes := []rune(text)
	for at := 0; at < len(runes) && len(s.words) < mostWords; {
		switch kindOf(runes[at]) {
		case gap:
			s.before = ""
			at++
		case joint:
			at++
		case paired:
			s.before = ""
			to := at
			for to < len(runes) && kindOf(runes[to]) == paired {
				to++
			}
			s.pairs(runes[at:to])
			at = to
		default:
			to := part(runes, at)
			s.part(string(runes[at:to]))
			at = to
		}
	}
}

// part returns where the word that begins at a character ends: before a gap, a joint, or a new word of
// camelCase.
func part(runes []rune, at int) int {
	to := at + 1
	for ; to < len(runes); to++ {
		now := kindOf(runes[to])
		if now != lower && now != upper {
			break
		}
		if now == upper && kindOf(runes[to-1]) == lower {
			break // camelCase
		}
		if now == upper && to+1 < len(runes) && kindOf(runes[to+1]) == lower && unicode.IsLetter(runes[to+1]) && !plural(runes, to+1) {
			break // HTTPServer
		}
	}
	return to
}

// plural reports whether the character is the s of a word such as URLs.
func plural(runes []rune, at int) bool {
	return runes[at] == 's' && (at+1 == len(runes) || kindOf(runes[at+1]) != lower)
}

// part adds a word. Where it belongs to a compound, it adds it with the word before as well: e-mail is
// email, too.
func (s *splitter) part(text string) {
	text = strings.ToLower(text)
	s.add(text, false)
	if s.before != "" {
		s.add(s.before+text, true)
	}
	s.before = text
}

func (s *splitter) add(text string, joined bool) {
	if len(text) > mostWord {
		text = strings.ToValidUTF8(text[:mostWord], "")
	}
	if len(s.words) < mostWords && text != "" {
		s.words = append(s.words, Word{Text: text, Key: key(text), Function: !joined && isFunction(text), joined: joined})
	}
}

// pairs adds each two characters that stand beside each other.
func (s *splitter) pairs(runes []rune) {
	if len(runes) == 1 {
		s.add(string(runes), false)
	}
	for i := 0; i+1 < len(runes) && len(s.words) < mostWords; i++ {
		s.add(string(runes[i:i+2]), false)
	}
}

// key returns the word without its English ending. It need not be a word: order, orders, ordered and
// ordering have one key.
func key(word string) string {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	const short = 3
	if len(word) <= short {
		return word
	}
	word = withoutPlural(word)
	word = withoutParticiple(word)
	if len(word) > short {
		word = strings.TrimSuffix(word, "e")
	}
	last := len(word) - 1
	if word[last] == 'y' && last > 1 && !isVowel(word[last-1]) {
		return word[:last] + "i" // company, companies
	}
	if last > 1 && word[last] == word[last-1] {
		return word[:last] // cancelled, canceled
	}
	return word
}

func withoutPlural(word string) string {
	switch {
	case len(word) > 4 && strings.HasSuffix(word, "ies"):
		return word[:len(word)-2]
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"), strings.HasSuffix(word, "is"):
		return word
	}
	return strings.TrimSuffix(word, "s")
}

func withoutParticiple(word string) string {
	for _, end := range []string{"ing", "ed"} {
		rest, has := strings.CutSuffix(word, end)
		if has && len(rest) > 2 && !strings.HasSuffix(rest, "e") && strings.ContainsAny(rest, "aeiouy") {
			return rest
		}
	}
	return word
}

func isVowel(letter byte) bool { return strings.IndexByte("aeiou", letter) >= 0 }

// isFunction reports whether the word only joins others: in English, German, French or Spanish.
func isFunction(word string) bool {
	switch word {
	case "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does",
		"for", "from", "had", "has", "have", "hello", "her", "hi", "how", "i", "if", "in", "into", "is", "it", "its", "just", "like",
		"ll", "m", "may", "me", "my", "no", "not", "of", "on", "or", "our", "please", "re", "s", "she", "should", "so", "some", "t", "than",
		"thank", "thanks", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us", "ve", "was",
		"we", "were", "what", "when", "which", "who", "why", "will", "with", "would", "yes", "you", "your",
		"als", "auch", "auf", "aus", "bei", "bin", "bitte", "das", "dass", "dem", "den", "der", "des", "dich", "dir", "ein", "eine",
		"einem", "einen", "einer", "er", "es", "fur", "hallo", "hat", "ich", "ihr", "ihre", "ihren", "ist", "kann", "konnen", "mein", "meine", "meinem",
		"meinen", "meiner", "mich", "mir", "mit", "nach", "nicht", "noch", "oder", "sich", "sie", "sind", "und", "uns", "unser", "von", "war",
		"warum", "wenn", "wer", "wie", "wir", "wo", "zu", "zum", "zur",
		"au", "aux", "avec", "c", "ce", "ces", "cette", "d", "dans", "de", "du", "elle", "en", "est", "et", "il", "ils", "j", "je", "l", "la",
		"le", "les", "ma", "mais", "mes", "mon", "n", "ne", "nous", "ou", "par", "pas", "pour", "qu", "que", "qui", "sa", "ses", "sont", "sur",
		"un", "une", "vos", "votre", "vous",
		"al", "como", "con", "del", "el", "ella", "esta", "este", "ha", "hola", "las", "lo", "los", "mi", "mis", "muy", "o", "para", "pero", "por",
		"se", "si", "sin", "son", "su", "sus", "te", "tu", "una", "uno", "y", "yo":
		return true
	}
	return false
}
