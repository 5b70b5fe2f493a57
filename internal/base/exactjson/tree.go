package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Node is a JSON value with its members in the order in which they were written.
type Node struct {
	// Kind is one of the kinds below.
	Kind    byte
	Text    string // of a text, without quotes and escapes; of a number, as written
	Items   []Node
	Members []Field
	// Raw is the text of an object or an array, as it was written; nil for others.
	Raw json.RawMessage
}

// Field is one member of an object.
type Field struct {
	Name  string
	Value Node
}

// The kinds of nodes.
const (
	ObjectNode = '{'
	ArrayNode  = '['
	TextNode   = '"'
	NumberNode = '0'
	TrueNode   = 't'
	FalseNode  = 'f'
	NullNode   = 'n'
)

// Get returns the member of that name, and whether the object has it.
func (n Node) Get(name string) (Node, bool) {
	for _, m := range n.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Node{}, false
}

// Tree reads one JSON value with its members in their order. The error is one of syntax, or
// says that the value nests deeper than MaxDepth.
func Tree(raw []byte) (Node, error) {
	r := reader{raw: raw, dec: json.NewDecoder(bytes.NewReader(raw))}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return Node{}, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return Node{}, errors.New("there is data after the JSON value")
	}
	return n, nil
}

type reader struct {
	raw []byte
	dec *json.Decoder
}

func (r *reader) value(depth int) (Node, error) {
	if depth > MaxDepth {
		return Node{}, errors.New("the JSON value nests too deep")
	}
	token, err := r.dec.Token()
	if err != nil {
		return Node{}, err
	}
	end := r.dec.InputOffset()
	var n Node
	switch t := token.(type) {
	case json.Delim:
		start := end - 1
		n.Kind = byte(t)
		if t == '{' {
			err = r.object(&n, depth)
		} else {
			err = r.array(&n, depth)
		}
		n.Raw = r.raw[start:r.dec.InputOffset()]
		return n, err
	case string:
		n.Kind, n.Text = TextNode, t
	case json.Number:
		n.Kind, n.Text = NumberNode, t.String()
	case bool:
		n.Kind = FalseNode
		if t {
			n.Kind = TrueNode
		}
	default:
		n.Kind = NullNode
	}
	return n, nil
}

func (r *reader) object(n *Node, depth int) error {
	for r.dec.More() {
		name, err := r.dec.Token()
		if err != nil {
			return err
		}
		text, ok := name.(string)
		if !ok {
			return errors.New("a name is not a text")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Members = append(n.Members, Field{text, v})
	}
	_, err := r.dec.Token()
	return err
}

func (r *reader) array(n *Node, depth int) error {
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, v)
	}
	_, err := r.dec.Token()
	return err
}
