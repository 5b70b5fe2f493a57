package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

// constantsOf returns the texts of the constants of a type, which may also be declared in other packages.
func constantsOf(t *testing.T, of, name string) (values []string) {
	t.Helper()
	err := filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if is && isType(spec.Type, file.Name.Name, of, name) {
				for _, v := range spec.Values {
					if lit, is := v.(*ast.BasicLit); is {
						text, err := strconv.Unquote(lit.Value)
						require.NoError(t, err)
						values = append(values, text)
					}
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	return values
}

func isType(e ast.Expr, in, of, name string) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return in == of && e.Name == name
	case *ast.SelectorExpr:
		x, is := e.X.(*ast.Ident)
		return is && x.Name == of && e.Sel.Name == name
	}
	return false
}

// stopRows returns the rows of the table below a heading of stop-reasons.md: the first cell, and the test.
func stopRows(t *testing.T, heading string) (names []string, tests map[string]string) {
	t.Helper()
	_, part, found := strings.Cut(read(t, "reference/stop-reasons.md"), "\n## "+heading+"\n")
	require.True(t, found, heading)
	part, _, _ = strings.Cut(part, "\n## ")
	tests = map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z_]+)` \\|.*\\| `([^`]+)` \\|$").FindAllStringSubmatch(part, -1) {
		names, tests[row[1]] = append(names, row[1]), row[2]
	}
	return names, tests
}

// Each reason and verdict of the code has a row, and each row a test which names it.
func TestStopReasonsPageListsWhatTheCodeHas(t *testing.T) {
	t.Parallel()
	messages, _ := stopRows(t, "Messages")
	byMaps, _ := stopRows(t, "Agents that work by a Map")
	goals, _ := stopRows(t, "Goals")
	steps, _ := stopRows(t, "Steps of agents")
	verdicts, _ := stopRows(t, "Verdicts of managers")
	stops := constantsOf(t, "agentloop", "Stop")
	require.Greater(t, len(stops), 10)
	either := slices.Concat(messages, byMaps, goals)
	for _, stop := range stops {
		require.Contains(t, either, stop, "stop-reasons.md has no row for it")
	}
	for _, stop := range either {
		require.Contains(t, stops, stop)
	}
	require.ElementsMatch(t, constantsOf(t, "modelstep", "Decision"), verdicts)
	general := mapdef.Codes(mapdef.TypeSet)
	require.ElementsMatch(t, slices.DeleteFunc(mapdef.Codes(mapdef.TypeAgent), func(c string) bool { return slices.Contains(general, c) }), steps)

	known := testsOfTheTree(t)
	for _, heading := range []string{"Messages", "Agents that work by a Map", "Goals", "Steps of agents", "Verdicts of managers"} {
		names, tests := stopRows(t, heading)
		require.Len(t, tests, len(names), "a row is there twice")
		for name, test := range tests {
			require.True(t, known[test], "no test is named %s", test)
			require.Contains(t, testSource(t, test), name, "%s does not name what it is to bring about", test)
		}
	}
}

// testSource returns the text of a test, given as folder.TestName.
func testSource(t *testing.T, test string) string {
	t.Helper()
	folder, name, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if _, body, found := strings.Cut(string(text), "\nfunc "+name+"("); found {
			body, _, _ = strings.Cut(body, "\n}\n")
			return body
		}
	}
	return ""
}
