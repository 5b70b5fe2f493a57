package main

import (
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

const (
	// columns fit every terminal: a longer line would wrap, and could not be erased.
	columns = 79
	// erase returns to the beginning of the line and empties it.
	erase = "\r\x1b[K"
	// drawEvery is how often a terminal gets the line again.
	drawEvery = 500 * time.Millisecond
)

// screen shows one line of progress: written again on a terminal, line after line in a log.
type screen struct {
	out      io.Writer
	terminal bool
	every    time.Duration
	drawn    bool
}

func newScreen(out io.Writer, terminal bool) *screen {
	s := &screen{out: out, terminal: terminal, every: noteEvery}
	if terminal {
		s.every = drawEvery
	}
	return s
}

func (s *screen) show(line string) {
	if !s.terminal {
		fmt.Fprintln(s.out, line)
		return
	}
	if utf8.RuneCountInString(line) > columns {
		line = string([]rune(line)[:columns-1]) + "…"
	}
	fmt.Fprint(s.out, erase, line)
	s.drawn = true
}

// pass writes a line that is not ours, above the line of progress.
func (s *screen) pass(line string) {
	s.clear()
	fmt.Fprintln(s.out, line)
}

// end takes the line of progress away and leaves the summary, if there is one.
func (s *screen) end(summary string) {
	s.clear()
	if summary != "" {
		fmt.Fprintln(s.out, summary)
	}
}

func (s *screen) clear() {
	if s.drawn {
		fmt.Fprint(s.out, erase)
		s.drawn = false
	}
}
