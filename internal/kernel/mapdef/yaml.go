package mapdef

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v4"

	"agentruntime/internal/kernel/exactjson"
)

// FromYAML returns the JSON of a definition that was written in YAML, for Read. It takes the
// part of YAML that means the same as JSON: one document, without anchors, aliases, tags and
// merge keys. A plain scalar is null, true, false, a number as JSON writes it, or a text.
func FromYAML(source []byte) (out json.RawMessage, list []Fault) {
	f := &faults{}
	if len(source) > MaxBytes {
		f.addf("", "maxLength", "a definition has at most %d bytes", MaxBytes)
		return nil, f.list
	}
	defer func() {
		if r := recover(); r != nil {
			out, list = nil, []Fault{{"", "syntax", "is not YAML"}}
		}
	}()
	var doc yaml.Node
	if err := yaml.Load(source, &doc); err != nil {
		f.add("", "syntax", "is not one document of YAML"+lineOf(err))
		return nil, f.list
	}
	y := yamlReader{faults: f}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	y.value(root, "", 0)
	if len(f.list) > 0 {
		return nil, f.list
	}
	if len(y.out) > MaxBytes {
		f.addf("", "maxLength", "a definition has at most %d bytes of JSON", MaxBytes)
		return nil, f.list
	}
	return y.out, nil
}

// lineOf returns where a document cannot be read, "" where that is not known.
func lineOf(err error) string {
	first, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		all, is := errors.AsType[*yaml.LoadErrors](err)
		if !is || len(all.Errors) == 0 {
			return ""
		}
		first = all.Errors[0]
	}
	if first.Mark.Line <= 0 {
		return ""
	}
	return " (line " + strconv.Itoa(first.Mark.Line) + ")"
}

type yamlReader struct {
	*faults

	out []byte
}

func (y *yamlReader) refuse(n *yaml.Node, path, message string) {
	y.addf(path, "yaml", "%s (line %d)", message, n.Line)
}

func (y *yamlReader) value(n *yaml.Node, path string, depth int) {
	switch {
	case depth > MaxJSONDepth:
		y.refuse(n, path, "nests too deep")
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		y.refuse(n, path, "anchors and aliases are not allowed. Write the value again")
	case n.Style&yaml.TaggedStyle != 0:
		y.refuse(n, path, "tags are not allowed")
	case n.Kind == yaml.MappingNode:
		y.object(n, path, depth)
	case n.Kind == yaml.SequenceNode:
		y.out = append(y.out, '[')
		for i, item := range n.Content {
			if i > 0 {
				y.out = append(y.out, ',')
			}
			y.value(item, at(path, i), depth+1)
		}
		y.out = append(y.out, ']')
	case n.Kind == yaml.ScalarNode:
		y.scalar(n, path)
	default:
		y.refuse(n, path, "is not a value")
	}
}

func (y *yamlReader) object(n *yaml.Node, path string, depth int) {
	y.out = append(y.out, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Anchor != "" || key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0:
			y.refuse(key, path, "a name must be a plain text")
			return
		case key.Value == "<<" && key.Style&quotedStyles == 0:
			y.refuse(key, path, "merge keys are not allowed. Write the members again")
			return
		}
		if i > 0 {
			y.out = append(y.out, ',')
		}
		y.text(key.Value)
		y.out = append(y.out, ':')
		y.value(n.Content[i+1], under(path, key.Value), depth+1)
	}
	y.out = append(y.out, '}')
}

func (y *yamlReader) text(s string) { y.out = append(y.out, exactjson.Text(s)...) }

const quotedStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

var (
	jsonNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	otherNumber = regexp.MustCompile(`^[-+]?(\.?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|0[xob][0-9a-fA-F_]+|\.(inf|Inf|INF))$|^\.(nan|NaN|NAN)$`)
)

func (y *yamlReader) scalar(n *yaml.Node, path string) {
	switch v := n.Value; {
	case n.Style&quotedStyles != 0:
		y.text(v)
	case v == "" || v == "~" || v == "null" || v == "Null" || v == "NULL":
		y.out = append(y.out, "null"...)
	case v == "true" || v == "True" || v == "TRUE":
		y.out = append(y.out, "true"...)
	case v == "false" || v == "False" || v == "FALSE":
		y.out = append(y.out, "false"...)
	case jsonNumber.MatchString(v):
		y.out = append(y.out, v...)
	case otherNumber.MatchString(v):
		y.refuse(n, path, "write numbers as in JSON, or put the text in quotes")
	default:
		y.text(v)
	}
}
