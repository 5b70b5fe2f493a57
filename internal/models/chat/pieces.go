package chat

import (
	"encoding/json"
	"strings"

	"agentruntime/internal/models/model"
)

// mostThought is how many bytes of a model's thoughts are kept.
const mostThought = 64 << 10

// Pieces puts the pieces of one answer together, as servers of both APIs send them. Fields that are whole
// by definition (id, name) are set; text and arguments are joined.
type Pieces struct {
	// Model and Usage are as the server has named them last.
	Model string
	Usage model.Usage
	// Whole: the server has sent the end of the answer.
	Whole bool

	stream  model.Stream
	text    strings.Builder
	thought strings.Builder
	think   thoughts
	wrote   int // bytes of all that the model wrote
	calls   []*call
	at      map[int64]*call
}

type call struct {
	id, name string
	args     strings.Builder
	// start is what the call had as arguments before any piece of them.
	start string
}

// NewPieces returns what tells stream of the text.
func NewPieces(stream model.Stream) *Pieces {
	p := &Pieces{stream: stream, at: map[int64]*call{}}
	p.think.said, p.think.thought, p.think.void = p.said, p.thoughtOf, p.void
	return p
}

// Text takes the next piece of the text. Thoughts in it are no part of the answer.
func (p *Pieces) Text(piece string) {
	p.wrote += len(piece)
	p.think.next(piece, false)
}

// Thought takes the next piece of what the model thinks.
func (p *Pieces) Thought(piece string) {
	p.wrote += len(piece)
	p.thoughtOf(piece)
}

func (p *Pieces) said(text string) {
	if text == "" {
		return
	}
	p.text.WriteString(text)
	p.stream.Says(text)
}

// void makes thoughts of all that was said.
func (p *Pieces) void() {
	p.thoughtOf(p.text.String())
	p.text.Reset()
	p.stream.Begins(model.ResetReasoning)
}

func (p *Pieces) thoughtOf(text string) {
	room := max(0, mostThought-p.thought.Len())
	p.thought.WriteString(strings.ToValidUTF8(text[:min(room, len(text))], ""))
}

// Piece is a piece of a call. Index is nil where the server does not number it.
type Piece struct {
	Index          *int64
	ID, Name, Args string
}

// Call takes the next piece of a call. A new id with a name begins another call, and so does a name where
// the arguments so far are whole, or belong to another name: not all servers number calls.
func (p *Pieces) Call(piece Piece) {
	p.wrote += len(piece.Name) + len(piece.Args)
	c := p.callOf(piece)
	switch {
	case c == nil || c.endsBefore(piece):
		c = &call{}
		p.calls = append(p.calls, c)
	case piece.ID != "" && piece.ID == c.id && piece.Args == c.args.String():
		return // the whole call once more
	}
	if piece.Index != nil {
		p.at[*piece.Index] = c
	}
	if c.id == "" {
		c.id = piece.ID
	}
	if piece.Name != "" {
		c.name = piece.Name
	}
	c.args.WriteString(piece.Args)
}

// callOf returns the call that a piece goes on with, unless it begins another; nil for none.
func (p *Pieces) callOf(piece Piece) *call {
	if piece.Index != nil {
		return p.at[*piece.Index]
	}
	for i := len(p.calls) - 1; i >= 0 && piece.ID != ""; i-- {
		if p.calls[i].id == piece.ID {
			return p.calls[i]
		}
	}
	if len(p.calls) == 0 {
		return nil
	}
	return p.calls[len(p.calls)-1]
}

// endsBefore reports whether the piece begins another call.
func (c *call) endsBefore(piece Piece) bool {
	if piece.Name == "" {
		return false // some servers make up an id for each piece
	}
	args := c.args.String()
	switch {
	case piece.ID != "" && c.id != "" && piece.ID != c.id:
		return true
	case json.Valid([]byte(args)):
		return strings.TrimSpace(piece.Args) != "" && (piece.ID == "" || piece.Args != args) || piece.Name != c.name
	default:
		return args == "" && c.name != "" && piece.Name != c.name
	}
}

// Begin begins a call that a server announces, with arguments that it may have already.
func (p *Pieces) Begin(index int64, id, name, args string) {
	p.wrote += len(name)
	c := &call{id: id, name: name, start: args}
	p.calls, p.at[index] = append(p.calls, c), c
}

// Args takes the next piece of the arguments of a call that was begun.
func (p *Pieces) Args(index int64, piece string) {
	p.wrote += len(piece)
	c := p.at[index]
	if c == nil && len(p.calls) > 0 {
		c = p.calls[len(p.calls)-1]
	}
	if c != nil {
		c.args.WriteString(piece)
	}
}

// Response returns what has come, as an answer to the request. A count of tokens that the server has not
// reported, or that cannot be, is an estimate; so is one of an answer that breaks off.
func (p *Pieces) Response(req model.Request, tools Tools) model.Response {
	p.think.next("", true)
	r := model.Response{Model: p.Model, Text: p.text.String(), Usage: p.Usage.Estimated(req, p.wrote, p.Whole)}
	r.Reasoning = strings.TrimSpace(p.thought.String())
	for _, c := range p.calls {
		args := c.args.String()
		if strings.TrimSpace(args) == "" {
			args = c.start
		}
		r.Calls = append(r.Calls, tools.Call(c.id, c.name, args))
	}
	return r
}
