package lookagain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/lookagain"
)

func TestWhatIsInOrderIsLookedAtLessAndLess(t *testing.T) {
	t.Parallel()
	l := lookagain.New[string]()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var looks []time.Duration
	for at := time.Duration(0); at <= 40*time.Second; at += time.Second {
		if now := start.Add(at); l.Due("a", now) {
			looks = append(looks, at)
			l.Leave("a", now, time.Second, 8*time.Second)
		}
		require.True(t, l.Due("b", start.Add(at)), "nothing is known of it")
	}
	require.Equal(t, []time.Duration{0, 1e9, 3e9, 7e9, 15e9, 23e9, 31e9, 39e9}, looks)
}
