package account

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/fault"
)

// line starts callers that wait for the slot and note their network once they have it.
func line(ctx context.Context, s *slots, served *[]string, networks ...string) {
	for _, network := range networks {
		go func() {
			if free, err := s.take(ctx, network); err == nil {
				*served = append(*served, network)
				free()
			} else {
				*served = append(*served, network+" "+string(fault.As(err).Code))
			}
		}()
		synctest.Wait()
	}
}

func TestSlotsBoundTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		free, err := s.take(t.Context(), "a")
		require.NoError(t, err)

		began := time.Now()
		_, err = s.take(t.Context(), "a")
		require.Equal(t, fault.CodeServiceUnavailable, fault.As(err).Code)
		require.Equal(t, slotWait, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.take(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, fault.As(err), "the caller went away")
		require.Empty(t, s.waiting)

		free()
		free, err = s.take(t.Context(), "a")
		require.NoError(t, err)
		free()
	})
}

func TestSlotsNetworksTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := newSlots(1), []string{}
		free, err := s.take(t.Context(), "a")
		require.NoError(t, err)
		line(t.Context(), s, &served, "a", "a", "a", "b", "b", "c")
		free()
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c", "a", "b", "a"}, served)
		require.Equal(t, 1, s.free)
		require.Empty(t, s.turns)
		require.Zero(t, s.all)
	})
}

func TestSlotsFloodOfOneNetworkTakesOnlyItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := newSlots(1), []string{}
		free, err := s.take(t.Context(), "a")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for range waitingEach {
			go func() { _, _ = s.take(ctx, "a") }()
		}
		synctest.Wait()
		_, err = s.take(t.Context(), "a")
		require.Equal(t, fault.CodeLoginThrottled, fault.As(err).Code)
		line(t.Context(), s, &served, "b")
		free()
		s.release() // the first of a
		synctest.Wait()
		require.Equal(t, []string{"b"}, served, "after one of the flood")
		cancel() // the others leave
	})
}

func TestSlotsFullLineMakesRoomForANewNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := newSlots(1), []string{}
		_, err := s.take(t.Context(), "a")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for n := range waitingMost / waitingEach {
			for range waitingEach {
				go func() { _, _ = s.take(ctx, fmt.Sprint("flood", n)) }()
			}
		}
		synctest.Wait()
		require.Equal(t, waitingMost, s.all)
		line(t.Context(), s, &served, "b")
		require.Empty(t, served, "b waits")
		require.Equal(t, waitingMost, s.all)
		require.Len(t, s.waiting["b"], 1)
		cancel() // the flood ends
		synctest.Wait()
		s.release()
		synctest.Wait()
		require.Equal(t, []string{"b"}, served)
	})
}
