package pattern_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/pattern"
)

// An expression costs once what it takes to measure and to compile, also where it is refused.
func TestMemoCountsEachExpressionOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expression string
		err        error
	}{
		"one that fits":      {"^[a-z]{1,100}$", nil},
		"one that is large":  {"(?:abc){1000}", pattern.ErrSize},
		"one that is broken": {"(", pattern.ErrSyntax},
	} {
		memo := pattern.NewMemo(1000, 1000)
		_, work, _ := pattern.Measure(tc.expression, 1000)
		require.ErrorIs(t, memo.Check(tc.expression), tc.err, name)
		require.Equal(t, work, memo.Work(), name)
		if tc.err == nil {
			work *= 2
		}
		for range 3 {
			compiled, err := memo.Compile(tc.expression)
			require.ErrorIs(t, err, tc.err, name)
			require.Equal(t, err == nil, compiled != nil, name)
			require.Equal(t, work, memo.Work(), name)
		}
	}
}

func TestMemoWithoutRoomCompilesAgain(t *testing.T) {
	t.Parallel()
	memo := pattern.NewMemo(1000, 150)
	_, work, err := pattern.Measure("a{100}", 1000)
	require.NoError(t, err)
	for _, expression := range []string{"a{100}", "b{100}", "a{100}", "a{100}"} {
		compiled, err := memo.Compile(expression)
		require.NoError(t, err)
		require.False(t, compiled.MatchString("x"))
	}
	require.Equal(t, 5*work, memo.Work(), "two are measured, three are compiled")
	memo = pattern.NewMemo(1000, 50)
	for range 2 {
		_, err := memo.Compile("a{100}")
		require.NoError(t, err)
	}
	require.Equal(t, 3*work, memo.Work(), "one that is larger than the room is not kept")
}
