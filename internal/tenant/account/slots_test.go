package account

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/fault"
)

func TestSlotsRefuseWithACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		_, err := s.take(t.Context(), "a")
		require.NoError(t, err)
		// The context of the test ends before these callers have waited for long enough.
		ctx := context.WithoutCancel(t.Context())
		for range waitingEach {
			go func() {
				_, err := s.take(ctx, "a")
				require.Equal(t, fault.CodeServiceUnavailable, fault.As(err).Code)
			}()
		}
		synctest.Wait()
		_, err = s.take(t.Context(), "a")
		require.Equal(t, fault.CodeLoginThrottled, fault.As(err).Code)
	})
}
