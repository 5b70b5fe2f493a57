package chat

import (
	"strings"
)

// tag is an element that models write their thoughts in.
type tag struct{ opens, closes string }

func thoughtTags() []tag {
	return []tag{{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<thought>", "</thought>"}, {"[THINK]", "[/THINK]"}}
}

const (
	tick = "`"
	// fenced is from how many ticks on the code goes on over lines.
	fenced = 3
	// mostTicks is the longest run of ticks that is one mark, and mostSpan how many bytes of a line may be
	// code between ticks. They bound what is held.
	mostTicks = 64
	mostSpan  = 1 << 10
)

// thoughts takes the thoughts of a model from its text, which comes in pieces. They are anywhere but in code,
// where an answer may show how such an element looks.
type thoughts struct {
	// said and thought are told of each part. void is told that all that was said so far was thought: only
	// the end of its element is there, because a server has opened it in the prompt.
	said, thought func(text string)
	void          func()

	// held is text of which it is not known yet what it is.
	held string
	// space is at the beginning of an answer, and is dropped where thoughts follow. began: it has more.
	space strings.Builder
	began bool
	// out is what this piece adds to the answer.
	out strings.Builder
	// in is the element that is open, fence the mark that ends the code; nil and "" for none.
	in    *tag
	fence string
}

// next takes the next piece of the text. end: it is the last.
func (t *thoughts) next(piece string, end bool) {
	t.held += piece
	for t.held != "" && t.part(end) {
	}
	if end && !t.began {
		t.out.WriteString(t.space.String())
	}
	if t.out.Len() > 0 {
		t.said(t.out.String())
		t.out.Reset()
	}
}

// part takes a part of what is held, and reports whether there may be another.
func (t *thoughts) part(end bool) bool {
	switch {
	case t.in != nil:
		return t.thinks(end)
	case t.fence != "":
		return t.code(end)
	}
	at := strings.IndexAny(t.held, "<["+tick)
	if at < 0 {
		at = len(t.held)
	}
	t.says(at)
	if t.held == "" {
		return false
	}
	if t.held[:1] == tick {
		return t.ticks(end)
	}
	wait := false
	for _, one := range thoughtTags() {
		if rest, opens := strings.CutPrefix(t.held, one.opens); opens {
			t.held, t.in = rest, &one
			t.drop()
			return true
		}
		if rest, closes := strings.CutPrefix(t.held, one.closes); closes {
			t.held = rest
			t.said(t.out.String())
			t.out.Reset()
			t.void()
			t.began = false
			t.drop()
			return true
		}
		wait = wait || strings.HasPrefix(one.opens, t.held) || strings.HasPrefix(one.closes, t.held)
	}
	if wait && !end {
		return false
	}
	t.says(1)
	return true
}

// says takes so many bytes as the answer.
func (t *thoughts) says(n int) {
	text := t.held[:n]
	t.held = t.held[n:]
	if !t.began {
		if strings.TrimSpace(text) == "" {
			t.space.WriteString(text)
			return
		}
		t.began = true
		t.out.WriteString(t.space.String())
	}
	t.out.WriteString(text)
}

// drop forgets the space before thoughts that an answer begins with.
func (t *thoughts) drop() {
	if !t.began {
		t.space.Reset()
	}
}

// thinks takes thoughts up to the end of their element.
func (t *thoughts) thinks(end bool) bool {
	part, rest, closed := strings.Cut(t.held, t.in.closes)
	if closed {
		t.thought(part)
		t.held, t.in = rest, nil
		return true
	}
	keep := 0
	if !end {
		keep = beginning(t.held, t.in.closes)
	}
	t.thought(t.held[:len(t.held)-keep])
	t.held = t.held[len(t.held)-keep:]
	return false
}

// code takes code up to the mark that ends it.
func (t *thoughts) code(end bool) bool {
	at := strings.Index(t.held, t.fence)
	if at < 0 {
		keep := 0
		if !end {
			keep = beginning(t.held, t.fence)
		}
		t.says(len(t.held) - keep)
		return false
	}
	t.says(at)
	run := ticksOf(t.held)
	if run == len(t.held) && run < mostTicks && !end {
		return false // the mark may be longer
	}
	t.says(run)
	t.fence = ""
	return true
}

// ticks takes code in a line, or the mark that begins code of several lines. A tick without another in
// its line begins no code.
func (t *thoughts) ticks(end bool) bool {
	run := ticksOf(t.held)
	if run == len(t.held) && run < mostTicks && !end {
		return false // the mark may be longer
	}
	if run >= fenced {
		t.fence = t.held[:run]
		t.says(run)
		return true
	}
	line, _, whole := strings.Cut(t.held[run:min(len(t.held), run+mostSpan)], "\n")
	whole = whole || end || len(line) == mostSpan
	for at := 0; at < len(line); at++ {
		n := ticksOf(line[at:])
		if n == run && (whole || at+n < len(line)) {
			t.says(run + at + n)
			return true
		}
		at += n
	}
	if whole {
		t.says(run)
	}
	return whole
}

// ticksOf returns how many ticks the text begins with, at most mostTicks.
func ticksOf(text string) (n int) {
	for n < min(len(text), mostTicks) && text[n:n+1] == tick {
		n++
	}
	return n
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
