package yamljson

import (
	"math/big"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

const quotedStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// maxNumber is the most characters of a number in another notation than JSON's. The strict
// reader of JSON allows 64 digits.
const maxNumber = 64

// numberStart are the characters that a number begins with, in any notation. Most scalars begin
// otherwise, and looking for each notation takes longer than all else.
const numberStart = "+-.0123456789"

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	// otherNumber is what YAML 1.1 or 1.2 takes for a number and JSON does not.
	otherNumber = regexp.MustCompile(`^[-+]?(\.?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|0[xob][0-9a-fA-F_]+|\.(inf|Inf|INF))$|^\.(nan|NaN|NAN)$`)
	// The numbers of the core schema of YAML 1.2, section 10.3.2.
	coreDecimal = regexp.MustCompile(`^([-+]?)([0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)
	coreBased   = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	coreNoJSON  = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

func (r *reader) scalar(n *yaml.Node) {
	switch v := n.Value; {
	case n.Style&quotedStyles != 0, r.isText(n):
		r.text(v)
	case v == "" || v == "~" || v == "null" || v == "Null" || v == "NULL":
		r.out = append(r.out, "null"...)
	case v == "true" || v == "True" || v == "TRUE":
		r.out = append(r.out, "true"...)
	case v == "false" || v == "False" || v == "FALSE":
		r.out = append(r.out, "false"...)
	case !strings.ContainsRune(numberStart, rune(v[0])):
		r.text(v)
	case jsonNumber.MatchString(v):
		r.out = append(r.out, v...)
	case r.Full:
		r.number(n)
	case otherNumber.MatchString(v):
		r.refuse(n, "write numbers as in JSON, or put the text in quotes")
	default:
		r.text(v)
	}
}

// number writes a number of YAML 1.2 as JSON writes it, and any other scalar as a text.
func (r *reader) number(n *yaml.Node) {
	v := n.Value
	switch {
	case coreNoJSON.MatchString(v):
		r.refuse(n, "JSON has no such number. Write another one, or put the text in quotes")
	case len(v) > maxNumber && (coreBased.MatchString(v) || coreDecimal.MatchString(v)):
		r.refuse(n, "is a number with too many digits. Put a text in quotes")
	case coreBased.MatchString(v):
		base := 8
		if v[1] == 'x' {
			base = 16
		}
		whole, _ := new(big.Int).SetString(v[2:], base)
		r.out = whole.Append(r.out, 10)
	default:
		r.decimal(v)
	}
}

// decimal writes what JSON writes otherwise: +1, 012, .5 and 1. are numbers too.
func (r *reader) decimal(v string) {
	part := coreDecimal.FindStringSubmatch(v)
	if part == nil || part[2] == "" && len(part[3]) < 2 {
		r.text(v)
		return
	}
	if part[1] == "-" {
		r.out = append(r.out, '-')
	}
	whole := strings.TrimLeft(part[2], "0")
	if whole == "" {
		whole = "0"
	}
	r.out = append(r.out, whole...)
	if len(part[3]) > 1 {
		r.out = append(r.out, part[3]...)
	}
	r.out = append(r.out, part[4]...)
}

// The tags of the core schema that can stand before a value of their kind.
const (
	tagText   = "!!str"
	tagObject = "!!map"
	tagList   = "!!seq"
)

// isText reports whether a tag says that a scalar is a text.
func (r *reader) isText(n *yaml.Node) bool {
	return n.Style&yaml.TaggedStyle != 0 && n.Tag == tagText
}

// allowsTag reports whether a value may have the tag that it has.
func (r *reader) allowsTag(n *yaml.Node) bool {
	if n.Style&yaml.TaggedStyle == 0 {
		return true
	}
	if !r.Full {
		return false
	}
	switch n.Tag {
	case tagText:
		return n.Kind == yaml.ScalarNode
	case tagObject:
		return n.Kind == yaml.MappingNode
	case tagList:
		return n.Kind == yaml.SequenceNode
	default:
		return false
	}
}

func (r *reader) tagMessage() string {
	if r.Full {
		return "only the tags !!str, !!map and !!seq are allowed"
	}
	return "tags are not allowed"
}
