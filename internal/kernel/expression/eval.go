package expression

import (
	"context"
	"encoding/json"
)

// The codes of an Error.
const (
	// CodeFailed: the expression has failed on the values that it got.
	CodeFailed = "EXPRESSION_ERROR"
	// CodeResult: the expression has no result, several, or one of a type that does not fit.
	CodeResult = "EXPRESSION_RESULT"
	// CodeLimit: the expression took more memory or time than it may. The same again fails again.
	CodeLimit = "EXPRESSION_LIMIT"
)

// Failure is why an evaluation has no value. None of them is worth a repeat.
type Failure struct {
	Code string
	// Detail says what went wrong. It can repeat parts of values, as jq's own messages do.
	Detail string
}

// Error implements error.
func (e *Failure) Error() string { return e.Code + ": " + e.Detail }

// Sandbox evaluates an expression where it can do no harm: with a bound on memory and time,
// apart from this process. It returns the results, at most two of them, or a *Failure. Any
// other error means that the sandbox itself has failed, and that a repeat may succeed.
type Sandbox interface {
	Run(ctx context.Context, source string, roots Roots) ([]json.RawMessage, error)
}

// Eval returns the value with all its expressions evaluated. The error is a *Failure, or what
// the sandbox or ctx returned. A Value without expressions needs neither roots nor sandbox.
func (v Value) Eval(ctx context.Context, sandbox Sandbox, roots Roots) (json.RawMessage, error) {
	panic("not yet")
}

// Text returns the text with its expressions put in: texts raw, null empty, all others as
// compact JSON.
func (t Template) Text(ctx context.Context, sandbox Sandbox, roots Roots) (string, error) {
	panic("not yet")
}

// Condition is a template that says yes or no: one expression and nothing beside it. The zero
// Condition is one that the definition does not have.
type Condition struct{ Template }

// Eval returns whether the condition is true. null counts as false. Any other result than
// true, false and null is a *Failure with CodeResult.
func (c Condition) Eval(ctx context.Context, sandbox Sandbox, roots Roots) (bool, error) {
	panic("not yet")
}

// IsZero reports whether the definition has no such condition.
func (c Condition) IsZero() bool { return len(c.parts) == 0 }
