package expression_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/expression"
)

// nest returns the text n times around the inner one.
func nest(before, inner, after string, n int) string {
	return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
}

// Compiling takes time that grows with the square of how deep an expression nests, so it is
// bounded: none of these, all as long as they may be, takes as much as a second.
func TestDeepExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"parentheses":  nest("(", "1", ")", 8000),
		"index":        nest(".[", "0", "]", 5000),
		"arrays":       nest("[", "1", "]", 8000),
		"objects":      nest("{a:", "1", "}", 4000),
		"sums":         nest("1+", "1", "", 8000),
		"pipes":        nest(".|", ".", "", 8000),
		"commas":       nest("1,", "1", "", 8000),
		"alternatives": nest(".//", ".", "", 5000),
		"ifs":          nest("if . then ", "1", " end", 1000),
		"signs":        nest("-", "1", "", 16000),
		"texts":        nest(`"\(`, "1", `)"`, 3000),
		"tries":        nest("try ", "1", "", 4000),
		"bindings":     nest(". as $x|", "1", "", 2000),
		"functions":    nest("def f: ", "1", "; f", 1500),
		"siblings":     nest("def f: 1; ", "f", "", 1500),
		"arguments":    nest("first(", "1", ")", 2000),
		"reductions":   nest("reduce . as $x (0; ", "1", ")", 800),
		"labels":       nest("label $x | ", "1", "", 1000),
		"updates":      nest(".a|=(", ".", ")", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := expression.Parse(source)
			require.NotNil(t, err)
			require.Regexp(t, "nests too deep|at most 64 functions", err.Message)
		})
	}
}

// These are long and not deep. Whatever comes of them, it comes soon.
func TestLongExpressionsAreRead(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"path":       "." + strings.Repeat("a.", 8000) + "a",
		"optional":   "." + strings.Repeat("a?|.", 90) + "a",
		"patterns":   ". as " + nest("[", "$x", "]", 5000) + " | $x",
		"elifs":      "if . then 1 " + nest("elif . then 1 ", "", "", 1000) + "end",
		"builtins":   nest("gsub(\"a\";\"b\")|", ".", "", 150),
		"long name":  strings.Repeat("a", 16000),
		"number":     strings.Repeat("9", 16000),
		"not closed": nest("(", "1", "", 16000),
		"closed":     nest("", "1", ")", 16000),
		"quotes":     nest("\"", "", "", 16000),
		"hashes":     nest("#\n", "1", "", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if e, err := expression.Parse(source); err == nil {
				_ = e.Check()
			}
			if text, errs := expression.ParseTemplate("${" + source + "}"); len(errs) == 0 {
				_, err := text.Text(t.Context(), noSandbox{}, roots())
				t.Log(err)
			}
		})
	}
}
