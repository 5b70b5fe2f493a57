package docs_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// languages are those of blocks, with the test that runs them, or compares them with what a block
// printed. "" is for a block that shows something and does nothing.
func languages() map[string]string {
	return map[string]string{
		"sh": "test/e2e", "sql": "test/e2e", "json answer": "test/e2e", "text answer": "test/e2e",
		"go": "internal/tenant/webhook", "python": "internal/tenant/webhook", "javascript": "internal/tenant/webhook",
		"json": "", "yaml": "", "text": "",
	}
}

// test/e2e runs the blocks of commands, in the order of their pages. This test has it find
// all of them, and counts what is run and what is not.
func TestBlocksSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`(?m)^ *(curl|make|agentruntime|bin/agentruntime|go (run|test|build)|apt-get|docker|psql|npm|npx) `)
	skips := regexp.MustCompile(`(?m)^ *<!-- not run: `)
	run, left := 0, map[string]int{}
	for _, page := range pages(t) {
		text := read(t, page)
		notRun := len(skips.FindAllString(text, -1))
		left["not run, and say why"] += notRun
		run -= notRun
		for _, block := range fences.FindAllString(text, -1) {
			first, rest, _ := strings.Cut(strings.TrimLeft(block, " "), "\n")
			language := strings.TrimPrefix(first, "```")
			by, known := languages()[language]
			require.True(t, known, "%s: a block of %q", page, language)
			if by == "" {
				left[language]++
			} else {
				run++
			}
			if language != "sh" {
				require.False(t, command.MatchString(rest), "%s: commands in a block that is not sh:\n%s", page, block)
			}
			if slices.Contains([]string{"go", "python", "javascript"}, language) {
				require.Equal(t, "use/webhooks.md", page, "the tests of %s read this page only", by)
			}
			if language == "json" {
				example, _, _ := strings.Cut(rest, "```")
				for values := json.NewDecoder(strings.NewReader(example)); values.More(); {
					require.NoError(t, values.Decode(new(any)), "%s: no JSON:\n%s", page, block)
				}
			}
		}
	}
	t.Logf("%d blocks are run or compared, %v are not", run, left)
	require.Positive(t, run)
}
