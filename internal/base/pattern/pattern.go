// Package pattern compiles regular expressions (RE2 syntax) of a bounded size, and says what
// a match costs. Go's engine takes at most the size of the program times the length of the
// text, so both together bound the work. Policies, schemas and maskers use it.
package pattern

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// draftFactor is by how much the count before the program is built may exceed the program:
// it adds up what the compiler shares.
const draftFactor = 8

// The reasons why an expression is refused.
var (
	ErrSyntax = errors.New("is not a regular expression (RE2 syntax)")
	ErrSize   = errors.New("is a regular expression that is too costly")
)

// Pattern is a compiled expression. It is safe for concurrent use.
type Pattern struct {
	re   *regexp.Regexp
	size int
}

// Compile returns the expression as a program of at most the given number of instructions;
// ErrSyntax or ErrSize. It counts them before it builds the program, because a few bytes can
// stand for millions.
func Compile(expression string, most int) (*Pattern, error) {
	size, _, err := Measure(expression, most)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, ErrSyntax
	}
	return &Pattern{re: re, size: size}, nil
}

// Measure returns how many instructions the expression compiles to; ErrSyntax, or ErrSize where they
// are more than most. work is what it has taken to find out, whatever comes of it, in instructions that
// would take as long: one takes about 0.3 µs and 250 bytes, half of that of Compile.
func Measure(expression string, most int) (size, work int, err error) {
	if work = parseWork(expression); work > max(draftFactor*most, parseLeast) {
		return 0, 0, ErrSize // it is not parsed
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, work, ErrSyntax
	}
	if draftSize(tree) > draftFactor*most {
		return 0, work, ErrSize
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, work, ErrSize
	}
	size = len(program.Inst)
	if work += size; size > most {
		return size, work, ErrSize
	}
	return size, work, nil
}

// What the parser takes for parts of an expression, in instructions that would take as long (measured). A
// class of Unicode has hundreds of ranges, and those that are joined in one class are sorted. Where letters
// match in both cases, the parser goes through the letters of a class one by one, which may be all of Unicode.
const (
	bytesPerWork = 2
	unicodeWork  = 200
	foldWork     = 8000
	// parseLeast is how much may be parsed however small the program has to be: 3 ms.
	parseLeast = 10_000
)

// parseWork returns about what it takes to parse an expression.
func parseWork(expression string) int {
	work := len(expression)/bytesPerWork + unicodeWork*(strings.Count(expression, `\p`)+strings.Count(expression, `\P`))
	if !foldsCase.MatchString(expression) {
		return work
	}
	wide := strings.Contains(expression, `\`) || strings.ContainsFunc(expression, func(r rune) bool { return r > unicode.MaxASCII })
	if wide {
		work += foldWork * strings.Count(expression, "[")
	}
	return work
}

// foldsCase finds the flag by which letters match in both cases.
var foldsCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

// Size returns how many instructions the program has.
func (p *Pattern) Size() int { return p.size }

// Cost returns the most work that a match of a text of n bytes takes, in steps of the
// engine. A step takes about 20 ns (measured).
func (p *Pattern) Cost(n int) int { return p.size * (n + 1) }

// Match reports whether the text contains a match.
func (p *Pattern) Match(text []byte) bool { return p.re.Match(text) }

// MatchString reports whether the text contains a match.
func (p *Pattern) MatchString(text string) bool { return p.re.MatchString(text) }

// String returns the expression.
func (p *Pattern) String() string { return p.re.String() }

// draftSize returns at least as many instructions as the tree compiles to. The parser limits
// the product of nested repetitions to 1,000.
func draftSize(tree *syntax.Regexp) int {
	size := 2
	for _, sub := range tree.Sub {
		size += draftSize(sub) + 1
	}
	switch tree.Op {
	case syntax.OpLiteral:
		size += len(tree.Rune)
	case syntax.OpRepeat:
		size *= max(tree.Min+1, tree.Max, 1)
	default: // its parts say all
	}
	return size
}
