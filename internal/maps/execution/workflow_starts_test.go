package execution

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A tenant triggers a thousand Maps. As many as may are begun, and the others in their turn. Those of
// another tenant do not wait for them.
func TestExecutionsOfACrowdBeginInTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, crowd := newStarts(), uuid.New()
		begun := make(chan uuid.UUID, startsWaiting+startsMost)
		for range startsWaiting + startsMost {
			go func() {
				e := Execution{ID: uuid.New(), TenantID: crowd}
				if s.take(t.Context(), e) {
					begun <- e.ID
				}
			}()
		}
		synctest.Wait()
		require.Len(t, begun, startsMost)
		require.False(t, s.take(t.Context(), Execution{ID: uuid.New(), TenantID: crowd}), "the sweeper begins what is too much")
		require.False(t, s.try(Execution{ID: uuid.New(), TenantID: crowd}), "the sweeper does not pass those that wait")
		other := Execution{ID: uuid.New(), TenantID: uuid.New()}
		require.True(t, s.try(other))
		s.rest(other.ID)

		for range 10 {
			s.rest(<-begun)
		}
		synctest.Wait()
		require.Len(t, begun, startsMost, "ten rest, and ten begin")

		// Nothing is told of the others: their worker has died.
		open := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.open)
		}
		for open() > 0 {
			select {
			case <-time.After(startsLast + time.Second):
			case <-t.Context().Done():
			}
			synctest.Wait()
		}
		require.Len(t, begun, startsMost+startsWaiting-10)
		require.True(t, s.try(Execution{ID: uuid.New(), TenantID: crowd}))
	})
}

func TestLargePayloadDoesNotWaitInMemory(t *testing.T) {
	t.Parallel()
	s, tenant := newStarts(), uuid.New()
	large := func() Execution {
		return Execution{ID: uuid.New(), TenantID: tenant, payload: strings.Repeat("x", startsText+1)}
	}
	for range startsMost {
		require.True(t, s.take(t.Context(), large()))
	}
	require.False(t, s.take(t.Context(), large()))
	for id := range s.open {
		s.rest(id)
	}
	require.True(t, s.take(t.Context(), large()))
	for id := range s.open {
		s.rest(id)
	}
	require.Empty(t, s.open)
}
