// Package expression has the jq expressions in the definition of a Map: texts with ${ }, how
// they are read, what they refer to, and their results. An evaluation is deterministic: it
// sees nothing but the roots that its caller passes.
//
// Expressions that can only follow paths, compare and build small values run in this process.
// All others run in a Sandbox, which the caller brings. The package itself does no I/O.
package expression

import (
	"fmt"

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
	query  *gojq.Query
	refs   References
}

// Source returns the expression as it was written, without ${ and }.
func (e *Expr) Source() string { return e.source }

// References returns what the expression reads.
func (e *Expr) References() References { return e.refs }
