package openapi

import (
	"regexp"

	"agentruntime/internal/kernel/argschema"
	"agentruntime/internal/kernel/pattern"
)

// Bounds of what the regular expressions of one document take, in instructions as package pattern counts
// them. A few bytes stand for thousands of instructions, and each takes about 250 bytes of memory that is
// garbage at once. So the bound of the small documents is what a process has room for at any time. The
// bound of others grows with the document. Of 2,400 published ones the costliest takes half of it.
const (
	spareInstructions    = 300_000
	bytesPerInstruction  = 4
	maxInstructions      = 4_000_000
	maxSmallInstructions = 100_000
)

const (
	// instructionsPerUnit is how many instructions take a unit of work to count.
	instructionsPerUnit = 2
	// compileFactor is how much longer compiling an expression takes than counting its instructions.
	compileFactor = 2
)

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
	w.spendInstructions(work)
	return expression, err == nil
}

// spendInstructions adds what expressions have taken.
func (w *work) spendInstructions(n int) {
	most := min(spareInstructions+w.text/bytesPerInstruction, maxInstructions)
	if w.small {
		most = maxSmallInstructions
	}
	if w.patterns.instructions += n; w.patterns.instructions > most && w.err == nil {
		w.err = w.exceeded("work", "The document takes too much work to import: its patterns are too costly together. Shorten their repetitions, or split it.")
	}
	w.spend(n / instructionsPerUnit)
}
