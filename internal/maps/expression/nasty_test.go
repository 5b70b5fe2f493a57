package expression_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
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

// What becomes of a text of a million digits is computed apart from this process: it takes seconds.
func TestLongTextsBecomeNumbersInTheSandbox(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		digits int
		here   bool
	}{"short": {1000, true}, "long": {100_000, false}} {
		text, errs := expression.ParseTemplate("${trigger_data.n | tonumber | . > 1}")
		require.Empty(t, errs)
		roots := expression.Roots{TriggerData: json.RawMessage(`{"n":"` + strings.Repeat("7", tc.digits) + `"}`)}
		got, err := text.Text(t.Context(), noSandbox{}, roots)
		if tc.here {
			require.NoError(t, err, name)
			require.Equal(t, "true", got, name)
		} else {
			require.ErrorIs(t, err, errNoSandbox, name)
		}
	}
}

// A long name above many values is not written once for each of them.
func TestPathsShortenLongNames(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 1000)
	tree, err := exactjson.Tree([]byte(`{"` + name + `":["${.","${a}"]}`))
	require.NoError(t, err)
	v, problems := expression.NewValue(tree)
	require.Len(t, problems, 1)
	short := "/" + strings.Repeat("n", 80) + "…/"
	require.Equal(t, short+"0", problems[0].Path)
	var paths []string
	v.Walk(func(path string, _ expression.Value) { paths = append(paths, path) })
	require.Equal(t, []string{"", strings.TrimSuffix(short, "/"), short + "0", short + "1"}, paths)
}
