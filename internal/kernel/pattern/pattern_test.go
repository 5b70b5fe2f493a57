package pattern_test

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/pattern"
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

// What was built of an expression that is too large counts for those who add it up.
func TestMeasureTellsWhatItHasBuilt(t *testing.T) {
	t.Parallel()
	size, err := pattern.Measure(`^[a-z]{2}$`, 100)
	require.NoError(t, err)
	require.Positive(t, size)
	size, err = pattern.Measure(`a{900}b{900}`, 1500)
	require.ErrorIs(t, err, pattern.ErrSize)
	require.Greater(t, size, 1500)
	size, err = pattern.Measure(strings.Repeat(`.{0,999}a`, 9), 1000)
	require.ErrorIs(t, err, pattern.ErrSize)
	require.Zero(t, size, "it was seen before anything was built")
	size, err = pattern.Measure(`(`, 100)
	require.ErrorIs(t, err, pattern.ErrSyntax)
	require.Zero(t, size)
}
