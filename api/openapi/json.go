package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gopkg.in/yaml.v3"
)

// linesTo is how deep members stand on lines of their own in the JSON form: down to one
// path and one component, so that a change shows as a change of few lines.
const linesTo = 3

// marshalJSON writes a YAML document as JSON and keeps the order of members, in which the
// page at /docs shows operations and fields.
func marshalJSON(document *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	if err := writeNode(&b, document, 1); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func writeNode(b *bytes.Buffer, n *yaml.Node, depth int) error {
	switch n.Kind {
	case yaml.MappingNode:
		return writeItems(b, n, '{', '}', depth)
	case yaml.SequenceNode:
		return writeItems(b, n, '[', ']', depth)
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return writeValue(b, v)
	default:
		return fmt.Errorf("line %d: anchors and aliases are not used here", n.Line)
	}
}

// writeItems writes the elements of a sequence. For a mapping it writes the names and
// values, which a YAML node lists in turn.
func writeItems(b *bytes.Buffer, n *yaml.Node, begin, end byte, depth int) error {
	b.WriteByte(begin)
	for i, item := range n.Content {
		isName := n.Kind == yaml.MappingNode && i%2 == 0
		isValue := n.Kind == yaml.MappingNode && !isName
		switch {
		case isValue:
			b.WriteByte(':')
		case i > 0:
			b.WriteByte(',')
		}
		if !isValue && depth <= linesTo {
			b.WriteByte('\n')
		}
		var err error
		if isName {
			err = writeValue(b, item.Value)
		} else {
			err = writeNode(b, item, depth+1)
		}
		if err != nil {
			return err
		}
	}
	b.WriteByte(end)
	return nil
}

func writeValue(b *bytes.Buffer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.Write(raw)
	return nil
}
