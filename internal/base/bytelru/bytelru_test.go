package bytelru_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/bytelru"
)

func TestCacheIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	c, err := bytelru.New[int, string](10_000)
	require.NoError(t, err)
	for i := range 1000 {
		c.Add(i, "v", 1000, nil)
		require.LessOrEqual(t, c.Bytes(), 10_000)
	}
	_, first := c.Get(0)
	require.False(t, first)
	v, last := c.Get(999)
	require.True(t, last)
	require.Equal(t, "v", v)

	c.Add(5, "large", 50_000, nil)
	_, kept := c.Get(5)
	require.True(t, kept, "the newest stays, so that what is large can be used")
	c.Add(6, "small", 1, nil)
	require.Less(t, c.Bytes(), 10_000)
	_, err = bytelru.New[int, int](0)
	require.Error(t, err)
}

func TestAddKeepsWhatReplacesSays(t *testing.T) {
	t.Parallel()
	c, err := bytelru.New[string, int](10_000)
	require.NoError(t, err)
	newer := func(version int) func(int) bool { return func(old int) bool { return old <= version } }
	c.Add("k", 2, 10, newer(2))
	c.Add("k", 1, 10, newer(1))
	v, _ := c.Get("k")
	require.Equal(t, 2, v)
	c.Add("k", 3, 10, newer(3))
	v, _ = c.Get("k")
	require.Equal(t, 3, v)
}
