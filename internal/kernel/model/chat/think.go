package chat

import (
	"strings"
	"unicode"
)

// tag is an element that models write their thoughts in, at the beginning of an answer.
type tag struct{ opens, closes string }

func thoughtTags() []tag {
	return []tag{{"<think>", "</think>"}, {"<thinking>", "</thinking>"}}
}

// thoughts takes the thoughts of a model from the beginning of its text, which comes in pieces.
type thoughts struct {
	// held is text of which it is not known yet what it is.
	held string
	// in is the element that is open; nil before one and after all.
	in   *tag
	over bool // the rest is the answer
}

// next returns what the piece adds to the answer, and what it adds to the thoughts.
func (t *thoughts) next(piece string) (said, thought string) {
	t.held += piece
	for !t.over {
		if t.in != nil {
			part, rest, closed := strings.Cut(t.held, t.in.closes)
			if !closed {
				keep := beginning(t.held, t.in.closes)
				thought, t.held = thought+t.held[:len(t.held)-keep], t.held[len(t.held)-keep:]
				return "", thought
			}
			thought, t.held, t.in = thought+part, rest, nil
		}
		text := strings.TrimLeftFunc(t.held, unicode.IsSpace)
		undecided := text == ""
		for _, one := range thoughtTags() {
			if rest, opens := strings.CutPrefix(text, one.opens); opens {
				t.held, t.in = rest, &one
				break
			}
			undecided = undecided || strings.HasPrefix(one.opens, text)
		}
		if t.in == nil && undecided {
			return "", thought
		}
		t.over = t.in == nil
	}
	said, t.held = t.held, ""
	return said, thought
}

// rest returns what was held at the end of the text.
func (t *thoughts) rest() (said, thought string) {
	said, t.held = t.held, ""
	if t.in != nil {
		return "", said
	}
	return said, ""
}

// beginning returns how many bytes at the end of the text are a beginning of what is looked for.
func beginning(text, of string) int {
	for n := min(len(text), len(of)-1); n > 0; n-- {
		if strings.HasSuffix(text, of[:n]) {
			return n
		}
	}
	return 0
}

// unopened takes thoughts from a whole text whose element a server has opened in the prompt: only its end
// is in the text, on a line of its own.
func unopened(text string) (said, thought string) {
	for _, one := range thoughtTags() {
		before, after, has := strings.Cut(text, "\n"+one.closes)
		if has && !strings.Contains(before, one.opens) && (after == "" || after[0] == '\n' || after[0] == '\r') {
			return after, before
		}
	}
	return text, ""
}
