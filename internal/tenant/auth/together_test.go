package auth

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
)

// reads is a table of keys whose reads wait until the test lets them go.
type reads struct {
	mu       sync.Mutex
	requests []int32
	begun    chan struct{}
	release  chan struct{}
	answer   func(requests int32) (dbsqlc.PresentAPIKeyRow, error)
}

func newTogether(answer func(int32) (dbsqlc.PresentAPIKeyRow, error)) (*together, *reads) {
	r := &reads{begun: make(chan struct{}, 1000), release: make(chan struct{}), answer: answer}
	return &together{keys: map[string]*group{}, present: func(_ context.Context, _ string, requests int32) (dbsqlc.PresentAPIKeyRow, error) {
		r.mu.Lock()
		r.requests = append(r.requests, requests)
		r.mu.Unlock()
		r.begun <- struct{}{}
		<-r.release
		return r.answer(requests)
	}}, r
}

// waiting waits until n requests wait for the key.
func (t *together) waiting(tb testing.TB, n int32) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.keys["k"] != nil && t.keys["k"].requests == n
	}, time.Minute, time.Millisecond)
}

func TestRequestsOfOneKeyAreReadTogether(t *testing.T) {
	t.Parallel()
	together, r := newTogether(func(n int32) (dbsqlc.PresentAPIKeyRow, error) {
		return dbsqlc.PresentAPIKeyRow{Counted: []int64{1, int64(n)}}, nil
	})
	var wg sync.WaitGroup
	places := make(chan int32, 100)
	read := func() {
		row, after, err := together.read(t.Context(), "k")
		if err != nil || row.Counted[0] != 1 {
			t.Error(err, row)
		}
		places <- after
	}
	wg.Go(read)
	<-r.begun
	for range 20 {
		wg.Go(read)
	}
	together.waiting(t, 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := together.read(ctx, "k")
	require.ErrorIs(t, err, context.Canceled, "one that disconnects does not keep the others")
	close(r.release)
	wg.Wait()
	close(places)
	seen := map[int32]int{}
	for after := range places {
		seen[after]++
	}
	require.Equal(t, []int32{1, 21}, r.requests)
	require.Equal(t, 2, seen[0], "the first one, and the last of the others")
	for after := int32(1); after < 20; after++ {
		require.Equal(t, 1, seen[after])
	}
	require.Eventually(t, func() bool { together.mu.Lock(); defer together.mu.Unlock(); return len(together.keys) == 0 }, time.Minute, time.Millisecond)
}

func TestRequestsWithoutRoomForAllTryAlone(t *testing.T) {
	t.Parallel()
	together, r := newTogether(func(n int32) (dbsqlc.PresentAPIKeyRow, error) {
		counted := int64(1)
		if n > 1 {
			counted = 0
		}
		return dbsqlc.PresentAPIKeyRow{Counted: []int64{counted}}, nil
	})
	var wg sync.WaitGroup
	read := func() {
		row, after, err := together.read(t.Context(), "k")
		if err != nil || row.Counted[0] != 1 || after != 0 {
			t.Error(err, row, after)
		}
	}
	wg.Go(read)
	<-r.begun
	for range 3 {
		wg.Go(read)
	}
	together.waiting(t, 3)
	close(r.release)
	wg.Wait()
	require.Equal(t, []int32{1, 3, 1, 1, 1}, r.requests)
}

func TestFailureOfAReadIsOfAllThatWaited(t *testing.T) {
	t.Parallel()
	away := errors.New("postgres is away")
	together, r := newTogether(func(int32) (dbsqlc.PresentAPIKeyRow, error) { return dbsqlc.PresentAPIKeyRow{}, away })
	var wg sync.WaitGroup
	read := func() {
		if _, _, err := together.read(t.Context(), "k"); !errors.Is(err, away) {
			t.Error(err)
		}
	}
	wg.Go(read)
	<-r.begun
	for range 3 {
		wg.Go(read)
	}
	together.waiting(t, 3)
	close(r.release)
	wg.Wait()
	require.Equal(t, []int32{1, 3}, r.requests)
}
