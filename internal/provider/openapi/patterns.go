package openapi

import (
	"regexp"

	"agentruntime/internal/kernel/argschema"
	"agentruntime/internal/kernel/pattern"
)

// Bounds of the instructions that the regular expressions of one document compile to. A few bytes
// stand for thousands, and each takes about 250 bytes of memory that is garbage at once. So the bound
// of the small documents is what a process has room for at any time.
const (
	maxInstructions      = 4_000_000
	maxSmallInstructions = 100_000
)

// instructionsPerUnit is how many instructions take a unit of work to compile.
const instructionsPerUnit = 2

var unicodeEscape = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// patterns are the regular expressions of a document that were looked at.
type patterns struct {
	fits         map[string]bool // by the expression in Go's syntax
	instructions int
}

// goPattern returns an ECMA expression in Go's syntax and whether it compiles. Go's engine runs in
// linear time; what it cannot express is not checked. Each expression is compiled once.
func (w *work) goPattern(expression string) (string, bool) {
	if len(expression) > maxPattern || w.err != nil {
		return "", false
	}
	expression = unicodeEscape.ReplaceAllString(expression, `\x{$1}`)
	if fits, known := w.patterns.fits[expression]; known {
		return expression, fits
	}
	_, work, err := pattern.Measure(expression, argschema.MaxPattern)
	if w.patterns.fits == nil {
		w.patterns.fits = map[string]bool{}
	}
	w.patterns.fits[expression] = err == nil
	w.patterns.instructions += work
	most := maxInstructions
	if w.small {
		most = maxSmallInstructions
	}
	if w.patterns.instructions > most {
		w.err = w.exceeded("work", "The document takes too much work to import: its patterns are too costly together. Shorten their repetitions, or split it.")
	}
	w.spend(work / instructionsPerUnit)
	return expression, err == nil
}
