package glob_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/glob"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "a", true},
		{"a", "a", true},
		{"a", "A", false},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "bab", false},
		{"a*c", "abc", true},
		{"a*c", "abcd", false},
		{"*ab*", "aab", true},
		{"a*b*c", "axbxbxc", true},
		{"a**c", "ac", true},
		{"a?c", "abc", false},
		{"shop:*", "shop:a:b", true},
	} {
		require.Equal(t, tc.want, glob.Match(tc.pattern, tc.text), "%q, %q", tc.pattern, tc.text)
		require.Equal(t, tc.want, glob.Match(tc.pattern, []byte(tc.text)), "%q, %q", tc.pattern, tc.text)
	}
}

func TestMatchTakesNoMemory(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	name := []byte(strings.Repeat("ab", 100))
	require.Zero(t, testing.AllocsPerRun(10, func() { glob.Match("*ab*c*", name) }))
}
