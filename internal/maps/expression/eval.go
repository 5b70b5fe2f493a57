package expression

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
)

// The codes of a Failure.
const (
	// CodeFailed: the expression has failed on the values that it got.
	CodeFailed = "EXPRESSION_ERROR"
	// CodeResult: the expression has no result, several, or one that does not fit its place.
	CodeResult = "EXPRESSION_RESULT"
	// CodeLimit: the expression took more memory or time than it may. The same again fails again.
	CodeLimit = "EXPRESSION_LIMIT"
)

// MaxResult is how many bytes of JSON one value may have after its evaluation: as many as an
// answer of a provider.
const MaxResult = 4 << 20

// maxDepth is how deep a result may nest: as deep as arguments of a call.
const maxDepth = strictjson.DefaultMaxDepth

// maxDetail is how many bytes of jq's own message a Failure repeats.
const maxDetail = 300

// Failure is why an evaluation has no value. None of them is worth a repeat.
type Failure struct { //nolint:errname // a result of an evaluation, which is stored, as much as an error
	Code string
	// Detail says what went wrong. It repeats no value but what an author's own error says.
	Detail string
}

// Error implements error.
func (e *Failure) Error() string { return e.Code + ": " + e.Detail }

func failuref(code, format string, args ...any) *Failure {
	return &Failure{code, fmt.Sprintf(format, args...)}
}

// Sandbox bounds what the expressions of one value take. One evaluation uses it at a time.
type Sandbox interface {
	// Spend takes work of this process off what the value may still have here, and reports whether it
	// had as much. A unit is what it takes to read a byte, about 2 ns. What is not affordable here is run.
	Spend(work int) bool
	// Run evaluates an expression where it can do no harm: with a bound on memory and time, apart from
	// this process. It returns the results, at most two of them, or a *Failure. Any other error means
	// that the sandbox itself has failed, and that a repeat may succeed. A *BusyError says that it was
	// only busy.
	Run(ctx context.Context, source string, roots Roots) ([]json.RawMessage, error)
}

// BusyError says that an expression was not evaluated, because the sandbox has too much to do.
type BusyError struct {
	Reason error
	// Line puts the caller into the line of its party, and returns after how long it may ask again. That
	// grows with each in the line, so who will not ask again does not call it.
	Line func() time.Duration
}

// Error implements error.
func (e *BusyError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *BusyError) Unwrap() error { return e.Reason }

// Eval returns the value with all its expressions evaluated. The error is a *Failure, or what
// the sandbox or ctx returned. A Value without expressions needs neither roots nor sandbox.
func (v Value) Eval(ctx context.Context, sandbox Sandbox, roots Roots) (json.RawMessage, error) {
	e := newEvaluation(ctx, sandbox, roots)
	raw, err := v.write(nil, e.template)
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// Text returns the text with its expressions put in: texts raw, null empty, all others as
// compact JSON. The error is that of Eval.
func (t Template) Text(ctx context.Context, sandbox Sandbox, roots Roots) (string, error) {
	e := newEvaluation(ctx, sandbox, roots)
	return e.text(t)
}

// Condition is a template that says yes or no: one expression and nothing beside it. The zero
// Condition is one that the definition does not have.
type Condition struct{ Template }

// IsZero reports whether the definition has no such condition.
func (c Condition) IsZero() bool { return len(c.parts) == 0 }

// Eval returns whether the condition is true. null counts as false. Any other result than
// true, false and null is a *Failure with CodeResult.
func (c Condition) Eval(ctx context.Context, sandbox Sandbox, roots Roots) (bool, error) {
	expr := c.Single()
	if expr == nil {
		return false, failuref(CodeResult, "a condition is one expression and nothing beside it")
	}
	e := newEvaluation(ctx, sandbox, roots)
	raw, err := e.expression(expr)
	if err != nil {
		return false, err
	}
	switch string(raw) {
	case "true":
		return true, nil
	case "false", "null":
		return false, nil
	}
	return false, failuref(CodeResult, "a condition results in true, false or null, not in %s", kindOf(raw))
}

// evaluation is one evaluation of a value: all its expressions see the same roots.
type evaluation struct {
	ctx     context.Context //nolint:containedctx // lives as long as the call that passes it
	sandbox Sandbox
	values  *values
	written int // bytes of results so far
	// alone: all but paths run in the sandbox.
	alone bool
}

func newEvaluation(ctx context.Context, sandbox Sandbox, roots Roots) evaluation {
	if sandbox == nil {
		sandbox = none{}
	}
	return evaluation{ctx: ctx, sandbox: sandbox, values: newValues(roots, sandbox.Spend)}
}

// none stands for the sandbox of a caller who has none, and needs none.
type none struct{}

// Spend implements Sandbox.
func (none) Spend(int) bool { return true }

// Run implements Sandbox.
func (none) Run(context.Context, string, Roots) ([]json.RawMessage, error) {
	return nil, errors.New("evaluate an expression: there is no sandbox")
}

// template returns a text of a value as JSON: the result itself where the text is one
// expression, and a text otherwise.
func (e *evaluation) template(t Template) (json.RawMessage, error) {
	if expr := t.Single(); expr != nil {
		return e.expression(expr)
	}
	text, err := e.text(t)
	if err != nil {
		return nil, err
	}
	return quote(text), nil
}

func (e *evaluation) text(t Template) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		if p.Expr == nil {
			out.WriteString(p.Text)
			continue
		}
		raw, err := e.expression(p.Expr)
		if err != nil {
			return "", err
		}
		switch raw[0] {
		case '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return "", fmt.Errorf("read a result: %w", err)
			}
			out.WriteString(text)
		case 'n':
		default:
			out.Write(raw)
		}
	}
	return out.String(), nil
}

// expression returns the one result of an expression.
func (e *evaluation) expression(expr *Expr) (json.RawMessage, error) {
	results, err := e.results(expr)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		count := "no result"
		if len(results) > 1 {
			count = "more than one result"
		}
		return nil, failuref(CodeResult, "the expression has %s. Collect results in an array, or give a default with //", count)
	}
	raw := results[0]
	if e.written += len(raw); e.written > MaxResult {
		return nil, failuref(CodeLimit, "the results have more than %d bytes", MaxResult)
	}
	if err := acceptable(raw); err != nil {
		return nil, failuref(CodeResult, "the result cannot be used: %s", reason(err))
	}
	return raw, nil
}

// results evaluates an expression: in this process while the value can afford that, otherwise in the
// sandbox. A value can have very many expressions, so each looks whether anybody still waits.
func (e *evaluation) results(expr *Expr) ([]json.RawMessage, error) {
	if e.ctx.Err() != nil {
		return nil, context.Cause(e.ctx)
	}
	if expr.path != nil {
		if found, ok := expr.path.follow(e.values); ok && acceptable(found) == nil {
			return []json.RawMessage{found}, nil
		}
	}
	if !e.alone && expr.fits(e.values.roots) && e.values.spend(expr.cost(e.values.roots)) {
		results, err := expr.here(e.ctx, e.values)
		if !errors.Is(err, errSpent) {
			return results, err
		}
	}
	return e.sandbox.Run(e.ctx, expr.source, e.values.roots.Only(expr.refs))
}

// acceptable returns why a result cannot be used where the service stores JSON.
func acceptable(raw json.RawMessage) error {
	return strictjson.Check(raw, strictjson.Options{Free: []string{""}, MaxDepth: maxDepth})
}

// RunUnbounded evaluates the expression in this process, whatever it takes. It returns at
// most two results, or a *Failure. Only a sandbox may call it.
func (e *Expr) RunUnbounded(ctx context.Context, roots Roots) ([]json.RawMessage, error) {
	return e.here(ctx, newValues(roots, func(int) bool { return true }))
}

// here evaluates the expression in this process.
func (e *Expr) here(ctx context.Context, v *values) (results []json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			results, err = nil, failuref(CodeFailed, "jq has failed on these values")
		}
	}()
	code, err := e.compile()
	if err != nil {
		return nil, failuref(CodeFailed, "%s", clip(err.Error(), maxDetail))
	}
	input, err := v.decode(dot, v.roots.Dot)
	if err != nil {
		return nil, err
	}
	var bound []any
	for _, root := range e.refs.roots() {
		value, err := root.value(v)
		if err != nil {
			return nil, err
		}
		bound = append(bound, value)
	}
	return collect(ctx, code.RunWithContext(ctx, input, bound...))
}

// collect returns the first two results as JSON. Two are enough to know that there is not one.
func collect(ctx context.Context, iter gojq.Iter) ([]json.RawMessage, error) {
	var results []json.RawMessage
	for len(results) < 2 {
		v, ok := iter.Next()
		if !ok {
			break
		}
		if err, failed := v.(error); failed {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, failuref(CodeFailed, "%s", reasonOf(err))
		}
		raw, err := gojq.Marshal(v)
		if err != nil {
			return nil, failuref(CodeFailed, "%s", clip(err.Error(), maxDetail))
		}
		results = append(results, raw)
	}
	return results, nil
}

// reason returns what strictjson says about a result.
func reason(err error) string {
	if f := fault.As(err); f != nil && len(f.Details) > 0 {
		return f.Details[0].Message
	}
	return "it is not JSON that the service stores"
}

func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a text"
	case '[':
		return "an array"
	case '{':
		return "an object"
	default:
		return "a number"
	}
}
