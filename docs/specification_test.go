package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specificationRows is how many rows specification.md has for each part of the specification. The
// specification does not change, so a row is never taken away.
func specificationRows() []int {
	return []int{1: 22, 2: 61, 3: 7, 4: 60, 5: 24, 6: 10, 7: 5, 8: 10, 9: 1}
}

const notYet = "not yet"

// testsOfTheTree returns all tests as `folder.TestName`.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name == "bin" || len(name) > 2 && name[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			for _, found := range declared.FindAllSubmatch(text, -1) {
				tests[folder+"."+string(found[1])] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return tests
}

func TestSpecificationPageNamesATestForEachRow(t *testing.T) {
	t.Parallel()
	tests := testsOfTheTree(t)
	require.Greater(t, len(tests), 1000)
	page := read(t, "design/specification.md")
	parts := regexp.MustCompile(`(?m)^## (\d)\. `).Split(page, -1)
	rows, open := make([]int, len(parts)), 0
	seen := map[string]bool{}
	for part, text := range parts {
		heading := ""
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			switch {
			case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---"):
				continue
			case strings.TrimSpace(cells[1]) == "Tests":
				heading = cells[0]
				continue
			}
			require.Len(t, cells, 2, line)
			require.False(t, seen[heading+cells[0]], "this row is there twice: %s", line)
			seen[heading+cells[0]] = true
			rows[part]++
			named := strings.TrimSpace(cells[1])
			if named == notYet {
				open++
				continue
			}
			for name := range strings.SplitSeq(named, ", ") {
				require.True(t, tests[strings.Trim(name, "`")], "no test is named %s: %s", name, line)
			}
		}
	}
	require.Equal(t, specificationRows(), rows)
	all := 0
	for _, n := range rows {
		all += n
	}
	require.Contains(t, page, fmt.Sprintf("Of %d rows, %d are not yet built, or have no test.", all, open))
}
