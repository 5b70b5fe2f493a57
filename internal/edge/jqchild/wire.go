package jqchild

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"agentruntime/internal/maps/expression"
)

// maxFrame bounds a message between a process and its child, in bytes.
const maxFrame = 32 << 20

// request is what a child is asked.
type request struct {
	Source string
	Roots  expression.Roots
}

// response is what it answers.
type response struct {
	Results []json.RawMessage   `json:"results,omitempty"`
	Failure *expression.Failure `json:"failure,omitempty"`
	// Fault is an error that is no failure of the expression; "" where there is none.
	Fault string `json:"fault,omitempty"`
}

func (r response) results() ([]json.RawMessage, error) {
	switch {
	case r.Failure != nil:
		return nil, r.Failure
	case r.Fault != "":
		return nil, errors.New("jqchild: " + r.Fault)
	}
	return r.Results, nil
}

// writeFrame writes a message with its length before it.
func writeFrame(w io.Writer, data []byte) error {
	frame := make([]byte, 4, 4+len(data))
	binary.BigEndian.PutUint32(frame, uint32(len(data))) // callers check maxFrame
	_, err := w.Write(append(frame, data...))
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a message of %d bytes is too long", n)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}
