package turns

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bounds are those of all tests.
var bounds = Config{Slots: 1, Wait: 10 * time.Second, Each: 64, Most: 256}

// line starts callers that wait for the slot and note their party once they have it.
func line(ctx context.Context, s *Turns, served *[]string, partys ...string) {
	for _, party := range partys {
		go func() {
			if free, err := s.Take(ctx, party); err == nil {
				*served = append(*served, party)
				free()
			} else {
				*served = append(*served, party+" "+err.Error())
			}
		}()
		synctest.Wait()
	}
}

func TestTurnsBoundTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(bounds)
		free, err := s.Take(t.Context(), "a")
		require.NoError(t, err)

		began := time.Now()
		_, err = s.Take(t.Context(), "a")
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, bounds.Wait, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Take(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, s.waiting)

		free()
		free, err = s.Take(t.Context(), "a")
		require.NoError(t, err)
		free()
	})
}

func TestPartiesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := New(bounds), []string{}
		free, err := s.Take(t.Context(), "a")
		require.NoError(t, err)
		line(t.Context(), s, &served, "a", "a", "a", "b", "b", "c")
		free()
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c", "a", "b", "a"}, served)
		require.Equal(t, 1, s.free)
		require.Empty(t, s.order)
		require.Zero(t, s.all)
	})
}

func TestTurnsFloodOfOneNetworkTakesOnlyItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := New(bounds), []string{}
		free, err := s.Take(t.Context(), "a")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for range bounds.Each {
			go func() { _, _ = s.Take(ctx, "a") }()
		}
		synctest.Wait()
		_, err = s.Take(t.Context(), "a")
		require.ErrorIs(t, err, ErrCrowded)
		line(t.Context(), s, &served, "b")
		free()
		s.release("a") // the first of a
		synctest.Wait()
		require.Equal(t, []string{"b"}, served, "after one of the flood")
		cancel() // the others leave
	})
}

func TestTurnsFullLineMakesRoomForANewNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := New(bounds), []string{}
		_, err := s.Take(t.Context(), "a")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for n := range bounds.Most / bounds.Each {
			for range bounds.Each {
				go func() { _, _ = s.Take(ctx, fmt.Sprint("flood", n)) }()
			}
		}
		synctest.Wait()
		require.Equal(t, bounds.Most, s.all)
		line(t.Context(), s, &served, "b")
		require.Empty(t, served, "b waits")
		require.Equal(t, bounds.Most, s.all)
		require.Len(t, s.waiting["b"], 1)
		cancel() // the flood ends
		synctest.Wait()
		s.release("a")
		synctest.Wait()
		require.Equal(t, []string{"b"}, served)
	})
}

// A party has at most its share, also where turns are free.
func TestTurnsOfOnePartyLeaveSomeForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, served := New(Config{Slots: 2, Share: 1, Wait: 10 * time.Second, Each: 4, Most: 8}), []string{}
		first, err := s.Take(t.Context(), "a")
		require.NoError(t, err)
		line(t.Context(), s, &served, "a")
		require.Empty(t, served, "the second of a waits")
		other, err := s.Take(t.Context(), "b")
		require.NoError(t, err)
		other()
		synctest.Wait()
		require.Empty(t, served)
		first()
		synctest.Wait()
		require.Equal(t, []string{"a"}, served)
		require.Equal(t, 2, s.free)
		require.Empty(t, s.held)
	})
}
