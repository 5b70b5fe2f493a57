package turns

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

// The turns that a party may have follow what others have: a party with many callers does not take
// what is free while another one asks for little.
func TestTurnsOfOnePartyFollowThoseOfOthers(t *testing.T) {
	t.Parallel()
	const lately = 100 * time.Millisecond
	cfg := Config{Slots: 16, Share: 8, Least: 2, Lately: lately, Wait: time.Minute, Each: 64, Most: 256}
	for name, c := range map[string]struct {
		others int           // turns that others have
		after  time.Duration // since the last of them asked
		want   int
	}{
		"alone":                              {want: 8},
		"beside one turn":                    {others: 1, want: 2},
		"beside one turn that lasts":         {others: 1, after: time.Hour, want: 2},
		"beside three turns":                 {others: 3, want: 3},
		"beside many turns, no more than 8":  {others: 8, want: 8},
		"beside one that had a turn lately":  {others: -1, after: lately / 2, want: 2},
		"beside one that had one before":     {others: -1, after: lately, want: 8},
		"beside one that had one much later": {others: -1, after: time.Hour, want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := New(cfg)
				var served atomic.Int64
				for i := range max(c.others, -c.others) {
					free, err := s.Take(t.Context(), fmt.Sprint("other", i))
					require.NoError(t, err)
					if c.others < 0 {
						free()
					}
				}
				time.Sleep(c.after) //nolint:forbidigo // the bubble's clock
				ctx, cancel := context.WithCancel(t.Context())
				for range 20 {
					go func() {
						if _, err := s.Take(ctx, "many"); err == nil {
							served.Add(1)
						}
					}()
				}
				synctest.Wait()
				require.EqualValues(t, c.want, served.Load())
				cancel()
			})
		})
	}
}

// Two parties with many callers each have their share. One that ends leaves the other its own.
func TestTurnsOfBusyPartiesGrowToTheirShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lately = 100 * time.Millisecond
		s := New(Config{Slots: 16, Share: 8, Least: 1, Lately: lately, Wait: time.Hour, Each: 64, Most: 256})
		stop, all := map[string]context.CancelFunc{}, sync.WaitGroup{}
		for _, party := range []string{"a", "b"} {
			var ctx context.Context
			ctx, stop[party] = context.WithCancel(t.Context())
			for range 20 {
				all.Go(func() {
					for ctx.Err() == nil {
						if free, err := s.Take(ctx, party); err == nil {
							time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
							free()
						}
					}
				})
			}
		}
		time.Sleep(lately) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, map[string]int{"a": 8, "b": 8}, s.held)
		stop["b"]()
		time.Sleep(2 * lately) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, map[string]int{"a": 8}, s.held)
		stop["a"]()
		all.Wait()
	})
}
