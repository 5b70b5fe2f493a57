package openapi

import (
	"regexp"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/pattern"
)

// Bounds of what the regular expressions of one document take, in instructions as package pattern counts
// them: each expression twice, because it is measured and then compiled. What is compiled already costs
// nothing again. A few bytes stand for thousands of instructions, and each takes about 250 bytes of memory
// that is garbage at once. So the bound of the small documents is what a process has room for at any time.
// The bound of others grows with the document, so that 1 MB takes less than a second.
const (
	spareInstructions    = 300_000
	instructionsPerByte  = 2
	maxInstructions      = 4_000_000
	maxSmallInstructions = 100_000
)

const (
	// instructionsPerUnit is how many instructions take a unit of work to count.
	instructionsPerUnit = 2
	// keptInstructions is of how many instructions compiled expressions are kept until the end of the
	// import, so that schemas share them. They take about 100 bytes each.
	keptInstructions = 200_000
)

var unicodeEscape = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// patterns are the regular expressions of a document that were looked at.
type patterns struct {
	memo  *pattern.Memo // by the expression in Go's syntax
	spent int           // of the memo's work
}

func (p *patterns) known() *pattern.Memo {
	if p.memo == nil {
		p.memo = pattern.NewMemo(argschema.MaxPattern, keptInstructions)
	}
	return p.memo
}

// goPattern returns an ECMA expression in Go's syntax and whether it compiles. Go's engine runs in
// linear time; what it cannot express is not checked. Each expression is compiled once.
func (w *work) goPattern(expression string) (string, bool) {
	if len(expression) > maxPattern || w.err != nil {
		return "", false
	}
	expression = unicodeEscape.ReplaceAllString(expression, `\x{$1}`)
	err := w.patterns.known().Check(expression)
	w.spendPatterns()
	return expression, err == nil
}

// spendPatterns adds what expressions have taken since it was called before.
func (w *work) spendPatterns() {
	p := &w.patterns
	n := p.known().Work() - p.spent
	p.spent += n
	most := min(spareInstructions+w.text*instructionsPerByte, maxInstructions)
	if w.small {
		most = maxSmallInstructions
	}
	if p.spent > most && w.err == nil {
		w.err = w.exceeded("work", "The document takes too much work to import: its patterns are too costly together. Shorten their repetitions, or split it.")
	}
	w.spend(n / instructionsPerUnit)
}
