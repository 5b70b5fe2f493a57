package expression

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of a program.
const (
	// MaxProgram is how many bytes a program may have.
	MaxProgram = 4 << 10
	// maxInputHere is how many bytes the input of a program may have that runs in this process, where
	// it does more than follow a path: decoding takes up to 30 times as much memory.
	maxInputHere = 64 << 10
)

// programForm says what a program reads.
const programForm = `a program reads nothing but its input, as "."`

// Program is a jq program over one JSON value, which it reads as ".". Unlike an expression of a
// Map it has no other roots. It is safe for concurrent use.
type Program struct{ expr *Expr }

// ParseProgram reads a program. The error says what is wrong and where, also for names that do
// not exist.
func ParseProgram(source string) (*Program, *SyntaxError) {
	if len(source) > MaxProgram {
		return nil, &SyntaxError{Message: fmt.Sprintf("a program has at most %d bytes", MaxProgram)}
	}
	if strings.TrimSpace(source) == "" {
		return nil, &SyntaxError{Message: "the program is empty"}
	}
	expr, err := parse(source, true)
	if err == nil {
		err = expr.Check()
	}
	if err != nil {
		return nil, err
	}
	return &Program{expr}, nil
}

// Unfit returns why a text is no program, in a sentence that says where; "" if it is one.
func Unfit(source string) string {
	_, err := ParseProgram(source)
	switch {
	case err == nil:
		return ""
	case err.Offset > 0:
		return fmt.Sprintf("At byte %d: %s.", err.Offset, err.Message)
	}
	return err.Message + "."
}

// Eval returns the one result of the program on an input. The error is a *Failure, or what the
// sandbox or ctx returned. Paths, and small evaluations that cannot grow, take no sandbox.
func (p *Program) Eval(ctx context.Context, sandbox Sandbox, input json.RawMessage) (json.RawMessage, error) {
	e := newEvaluation(ctx, sandbox, Roots{Dot: input})
	e.alone = len(input) > maxInputHere
	return e.expression(p.expr)
}
