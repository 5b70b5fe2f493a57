package expression_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/expression"
)

// nest returns the text n times around the inner one.
func nest(before, inner, after string, n int) string {
	return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
}

// Forms whose reading or compiling could take longer than their length allows.
func TestLongExpressionsAreReadSoon(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"parentheses":   nest("(", "1", ")", 8000),
		"paths":         nest("(", ".", ".a)", 4000),
		"index":         nest(".[", "0", "]", 5000),
		"arrays":        nest("[", "1", "]", 8000),
		"objects":       nest("{a:", "1", "}", 4000),
		"path":          "." + strings.Repeat("a.", 8000) + "a",
		"sums":          nest("1+", "1", "", 8000),
		"pipes":         nest(".|", ".", "", 8000),
		"commas":        nest("1,", "1", "", 8000),
		"alternatives":  nest(".//", ".", "", 5000),
		"ifs":           nest("if . then ", "1", " end", 1000),
		"elifs":         "if . then 1 " + nest("elif . then 1 ", "", "", 1000) + "end",
		"signs":         nest("-", "1", "", 16000),
		"texts":         nest(`"\(`, "1", `)"`, 3000),
		"tries":         nest("try ", "1", "", 4000),
		"bindings":      nest(". as $x|", "1", "", 2000),
		"patterns":      ". as " + nest("[", "$x", "]", 5000) + " | $x",
		"functions":     nest("def f: ", "1", "; f", 1500),
		"siblings":      nest("def f: 1; ", "f", "", 1500),
		"arguments":     nest("first(", "1", ")", 2000),
		"reductions":    nest("reduce . as $x (0; ", "1", ")", 800),
		"labels":        nest("label $x | ", "1", "", 1000),
		"optional":      "." + strings.Repeat("a?.", 4000) + "a",
		"updates":       nest(".a|=(", ".", ")", 2000),
		"builtins":      nest("gsub(\"a\";\"b\")|", ".", "", 900),
		"long names":    strings.Repeat("a", 16000),
		"long number":   strings.Repeat("9", 16000),
		"number powers": nest("9", "*9", strings.Repeat("9", 50)+"*9", 200),
		"not closed":    nest("(", "1", "", 16000),
		"closed":        nest("", "1", ")", 16000),
		"quotes":        nest("\"", "", "", 16000),
		"hashes":        nest("#\n", "1", "", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			e, err := expression.Parse(source)
			if err == nil {
				err = e.Check()
				_ = e.Simple()
			}
			took := time.Since(began)
			t.Log(took, err)
			require.Less(t, took, 2*time.Second)
			text, _ := expression.ParseTemplate("${" + source + "}")
			_, _ = text.Text(t.Context(), noSandbox{}, roots())
			require.Less(t, time.Since(began), 6*time.Second)
		})
	}
}
