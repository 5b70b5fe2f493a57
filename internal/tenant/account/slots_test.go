package account

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestSlotsRefuseWithACode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		_, err := s.take(t.Context(), "a")
		require.NoError(t, err)
		refused := make(chan error, waitingEach)
		for range waitingEach {
			go func() {
				_, err := s.take(t.Context(), "a")
				refused <- err
			}()
		}
		synctest.Wait()
		_, err = s.take(t.Context(), "a")
		require.Equal(t, fault.CodeLoginThrottled, fault.As(err).Code)
		for range waitingEach { // the clock of the bubble goes on while the test waits
			requireCode(t, fault.CodeServiceUnavailable, <-refused)
		}
	})
}
