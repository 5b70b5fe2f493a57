package expression

import (
	"strings"
)

// Template is a text with its parsed expressions. The zero Template is the empty text.
type Template struct {
	source string
	parts  []Part
}

// Part is a piece of a Template: plain text, or an expression.
type Part struct {
	// Text is the plain text, with $${ read as ${; "" where Expr is set.
	Text string
	// Expr is the expression; nil for plain text.
	Expr *Expr
}

// Source returns the text as the definition has it.
func (t Template) Source() string { return t.source }

// Parts returns the pieces in their order.
func (t Template) Parts() []Part { return t.parts }

// Single returns the expression where the text is one expression and nothing beside it; nil
// otherwise. Only then the result keeps its type.
func (t Template) Single() *Expr {
	if len(t.parts) == 1 {
		return t.parts[0].Expr
	}
	return nil
}

// Plain returns the text where it has no expression in it.
func (t Template) Plain() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].Expr == nil:
		return t.parts[0].Text, true
	}
	return "", false
}

const (
	opening = "${"
	escaped = "$${"
)

// ParseTemplate reads a text with expressions in it. Each expression that cannot be read is
// one of the errors; the template is then of no use.
func ParseTemplate(source string) (Template, []*SyntaxError) {
	t := Template{source: source}
	var faults []*SyntaxError
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			t.parts = append(t.parts, Part{Text: text.String()})
			text.Reset()
		}
	}
	for at := 0; at < len(source); {
		rest := source[at:]
		switch {
		case strings.HasPrefix(rest, escaped):
			text.WriteString(opening)
			at += len(escaped)
		case strings.HasPrefix(rest, opening):
			flush()
			end := endOf(rest[len(opening):])
			if end < 0 {
				return t, append(faults, &SyntaxError{Offset: at, Message: "the expression that begins with ${ has no closing }. Write $${ for the characters ${"})
			}
			e, err := Parse(rest[len(opening) : len(opening)+end])
			if err != nil {
				err.Offset += at + len(opening)
				faults = append(faults, err)
			} else {
				t.parts = append(t.parts, Part{Expr: e})
			}
			at += len(opening) + end + 1
		default:
			text.WriteByte(rest[0])
			at++
		}
	}
	flush()
	return t, faults
}

// endOf returns where the } stands that closes an expression, or -1. Braces of objects,
// texts with expressions of their own and comments are part of the expression.
func endOf(s string) int {
	var open []byte // what is open: { ( [ and " for a text
	for i := 0; i < len(s); i++ {
		c := s[i]
		if n := len(open); n > 0 && open[n-1] == '"' {
			i, open = inText(s, i, open)
			continue
		}
		switch c {
		case '"', '{', '(', '[':
			open = append(open, c)
		case '#':
			for i+1 < len(s) && s[i+1] != '\n' {
				i++
			}
		case '}', ')', ']':
			if c == '}' && len(open) == 0 {
				return i
			}
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	return -1
}

// inText reads one character of a text of jq, and returns where it ends and what is open then.
func inText(s string, i int, open []byte) (int, []byte) {
	switch s[i] {
	case '"':
		open = open[:len(open)-1]
	case '\\':
		if i++; i < len(s) && s[i] == '(' {
			open = append(open, '(')
		}
	}
	return i, open
}
