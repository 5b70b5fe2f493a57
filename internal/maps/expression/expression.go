// Package expression has the jq expressions in the definition of a Map: texts with ${ }, how
// they are read, what they refer to, and their results. An evaluation is deterministic: it
// sees nothing but the roots that its caller passes.
//
// Expressions that only follow paths, compare and build small values run in this process. All
// others run in a Sandbox, which the caller brings. The package itself does no I/O.
package expression

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/itchyny/gojq"
)

// MaxSource is how many bytes one expression may have.
const MaxSource = 16 << 10

// SyntaxError is why an expression cannot be read.
type SyntaxError struct {
	// Offset is the byte in the text at which the problem is.
	Offset int
	// Message says what is wrong and what to do, in words for the author of the Map.
	Message string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Message) }

// Expr is one parsed expression. It is safe for concurrent use.
type Expr struct {
	source string
	query  *gojq.Query // with roots as variables
	refs   References
	work   float64 // what an evaluation costs in this process, per byte of the roots
	path   *path   // nil where the expression does more than follow one

	compile func() (*gojq.Code, error)
}

// Parse reads one expression, without ${ and }. The error says what is wrong and where.
func Parse(source string) (*Expr, *SyntaxError) { return parse(source, false) }

// parse is Parse, and for a program without roots other than ".".
func parse(source string, program bool) (*Expr, *SyntaxError) {
	if len(source) > MaxSource {
		return nil, &SyntaxError{Message: fmt.Sprintf("an expression has at most %d bytes", MaxSource)}
	}
	if strings.TrimSpace(source) == "" {
		return nil, &SyntaxError{Message: "the expression is empty. Write $${ for the characters ${"}
	}
	query, err := gojq.Parse(source)
	if err != nil {
		return nil, syntaxError(err)
	}
	e := &Expr{source: source, query: query}
	b := binder{refs: &e.refs, program: program}
	b.query(query, scope{top: true})
	if b.fault != nil {
		return nil, b.fault
	}
	e.work, e.path = workOf(query), pathOf(query)
	e.compile = sync.OnceValues(func() (*gojq.Code, error) {
		return gojq.Compile(e.query, append(withRoundings(), gojq.WithVariables(e.refs.variables()))...)
	})
	return e, nil
}

// Check finds what only compiling finds: names of functions and variables that do not exist.
func (e *Expr) Check() *SyntaxError {
	if _, err := e.compile(); err != nil {
		return &SyntaxError{Message: clip(err.Error(), maxDetail)} // it repeats names whole
	}
	return nil
}

// Source returns the expression as it was written, without ${ and }.
func (e *Expr) Source() string { return e.source }

// References returns what the expression reads.
func (e *Expr) References() References { return e.refs }

func syntaxError(err error) *SyntaxError {
	parse, ok := errors.AsType[*gojq.ParseError](err)
	if !ok {
		return &SyntaxError{Message: "is not a jq expression"}
	}
	at := max(parse.Offset-len(parse.Token), 0)
	if parse.Token == "" {
		return &SyntaxError{Offset: at, Message: "the jq expression ends too early"}
	}
	return &SyntaxError{Offset: at, Message: "is not a jq expression: unexpected " + clip(parse.Token, maxToken)}
}

// maxToken is how many bytes of an expression a message repeats.
const maxToken = 40

// clip returns the first bytes of a text, on a rune boundary.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
