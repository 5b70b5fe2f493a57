package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// test/e2e runs the blocks of commands, in the order of their pages. This test has it find
// all of them.
func TestBlocksSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"sh": true, "sql": true, "json": true, "json answer": true, "yaml": true, "go": true, "python": true, "javascript": true, "text": true, "text answer": true}
	command := regexp.MustCompile(`(?m)^ *(curl|make|agentruntime|bin/agentruntime|go (run|test|build)|apt-get|docker|psql|npm|npx) `)
	for _, page := range pages(t) {
		for _, block := range fences.FindAllString(read(t, page), -1) {
			first, rest, _ := strings.Cut(strings.TrimLeft(block, " "), "\n")
			language := strings.TrimPrefix(first, "```")
			require.True(t, known[language], "%s: a block of %q", page, language)
			if language != "sh" {
				require.False(t, command.MatchString(rest), "%s: commands in a block that is not sh:\n%s", page, block)
			}
		}
	}
}
