package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Event is one event of a stream.
type Event struct {
	Name string
	Data []byte
	// Whole: the server has sent this one JSON value in the place of a stream.
	Whole bool
}

// Read gives each event of a body to each, until the body or the stream ends. It reads what servers send
// besides what the standard says: no empty line between events or after the last one, and comments or empty
// lines to keep a connection alive. Where the body is one JSON value, that is the event. The error is
// ErrNoAnswer for a body with anything else.
func Read(body io.Reader, each func(Event) error) error {
	r := bufio.NewReader(body)
	first, err := firstByte(r)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	case first == '{' || first == '[':
		whole, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return each(Event{Data: whole, Whole: true})
	}
	e := events{each: each}
	for !e.over {
		line, err := r.ReadBytes('\n')
		for part := range bytes.SplitSeq(bytes.TrimRight(line, "\r\n"), []byte("\r")) {
			if wrong := e.line(part); wrong != nil {
				return wrong
			}
		}
		if errors.Is(err, io.EOF) {
			if !e.is {
				return ErrNoAnswer
			}
			return e.end()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// firstByte skips a mark of byte order and empty lines.
func firstByte(r *bufio.Reader) (byte, error) {
	if mark, _ := r.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = r.Discard(3)
	}
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, r.UnreadByte()
		}
	}
}

type events struct {
	each func(Event) error
	name string
	data []byte
	over bool
	is   bool // there is a line of a stream
}

func (e *events) line(line []byte) error {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	e.is = e.is || len(line) > 0 && slices.Contains([]string{"", "event", "data", "error", "id", "retry"}, string(field))
	switch {
	case len(line) == 0:
		err := e.end()
		e.name = ""
		return err
	case string(field) == "event":
		e.name = string(value)
	case string(field) == "error": // llama.cpp of 2025
		return e.each(Event{Name: "error", Data: value})
	case string(field) == "data":
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		if string(bytes.TrimSpace(e.data)) == "[DONE]" {
			e.over, e.data = true, nil
			return nil
		}
		if json.Valid(e.data) {
			return e.end()
		}
	}
	return nil
}

// end gives the event that was gathered, where there is one.
func (e *events) end() error {
	data := e.data
	e.data = nil
	switch {
	case len(bytes.TrimSpace(data)) == 0 || e.over:
		return nil
	case !json.Valid(data):
		return &json.SyntaxError{}
	}
	if err := e.each(Event{Name: e.name, Data: data}); err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	return nil
}
