package pattern_test

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/pattern"
)

func TestCompileBoundsTheProgram(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expression string
		want       error
	}{
		"plain":               {`^[A-Z]{2}[0-9]{2,30}$`, nil},
		"an address":          {`^[^@\s]+@[^@\s]+\.[a-z]{2,63}$`, nil},
		"900 of anything":     {`(?:.{0,900}a)$`, nil},
		"a look-ahead":        {`(?=a)`, pattern.ErrSyntax},
		"not closed":          {`(`, pattern.ErrSyntax},
		"three such in a row": {strings.Repeat(`.{0,999}a`, 3), pattern.ErrSize},
		"nested repetitions":  {`((ab?c?d?){30}){30}`, pattern.ErrSize},
		"too many of them":    {`((a{30}){30}){30}`, pattern.ErrSyntax},
		"a long one":          {strings.Repeat("[ab][cd]x", 800), pattern.ErrSize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := pattern.Compile(tc.expression, 2000)
			require.ErrorIs(t, err, tc.want)
			if err == nil {
				require.Equal(t, tc.expression, p.String())
			}
		})
	}
}

// TestDraftIsAnUpperBound: an expression fits by the count before the program is built
// wherever its program fits.
func TestDraftIsAnUpperBound(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		``, `a`, `abc|de|f`, `(a|b)*c+d?`, `^\d{3}-\d{4}$`, `(?:a?){30}`, `[a-z]{2,}`, `x{0}`, `x{0,0}`, `(ab{2,5}){3,7}`, `(?i)straße`, `\pL+`, `.{0,900}`, `(a*)*`,
	} {
		tree, err := syntax.Parse(expression, syntax.Perl)
		require.NoError(t, err)
		program, err := syntax.Compile(tree.Simplify())
		require.NoError(t, err)
		p, err := pattern.Compile(expression, len(program.Inst))
		require.NoError(t, err, expression)
		require.Len(t, program.Inst, p.Size())
		require.Equal(t, p.Size()*11, p.Cost(10))
	}
}

// What it took to look at an expression counts for those who add it up, whatever came of it.
func TestMeasureTellsWhatItHasTaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expression string
		most       int
		err        error
		least      int // work
	}{
		"one that fits":            {`^[a-z]{2}$`, 100, nil, 4},
		"one that is built":        {`a{900}b{900}`, 1500, pattern.ErrSize, 1500},
		"one with Unicode":         {`^[\pL\PN]$`, 100, nil, 100},
		"Unicode, not closed":      {strings.Repeat(`[^\pL]`, 100) + `(`, 5000, pattern.ErrSyntax, 5000},
		"Unicode, in one class":    {`[` + strings.Repeat(`\pL\PL`, 90) + `]`, 5000, nil, 36_000},
		"Unicode, in a large one":  {`[` + strings.Repeat(`\pL\PL`, 110) + `]`, 5000, pattern.ErrSize, 0},
		"many empty choices":       {strings.Repeat(`|`, 4000), 5000, nil, 2000},
		"Unicode, repeated":        {`(?:` + strings.Repeat(`\pL`, 150) + `){1000}`, 5000, pattern.ErrSize, 30_000},
		"letters of both cases":    {`(?s-i:a)(?i:^[a-z]+$)`, 100, nil, 3},
		"all letters, both cases":  {`(?i)[\x{42}-\x{1E942}]`, 5000, nil, 8000},
		"all letters, many times":  {`(?i)` + strings.Repeat(`[\x{42}-\x{1E942}]`, 6), 5000, pattern.ErrSize, 0},
		"all letters, as they are": {`(?i)` + strings.Repeat("[B-𞥂]", 6), 5000, pattern.ErrSize, 0},
	} {
		_, work, err := pattern.Measure(tc.expression, tc.most)
		require.ErrorIs(t, err, tc.err, name)
		require.GreaterOrEqual(t, work, tc.least, name)
	}
}
