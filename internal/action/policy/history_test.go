package policy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Counting windows takes half of the time that is left, and as long as it needs where there is no end.
func TestHalfOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bounded, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		half, done := halfOfTime(bounded)
		defer done()
		until, ok := half.Deadline()
		require.True(t, ok)
		require.Equal(t, 10*time.Second, time.Until(until))

		whole, done := halfOfTime(t.Context())
		_, ok = whole.Deadline()
		require.False(t, ok)
		require.NoError(t, whole.Err(), "it is not over at once")
		done()
		require.Error(t, whole.Err())
	})
}
