package share

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func pool() *Pool {
	return New(Limits{Total: 6, PerOwner: 3, PerPart: 2, Waiting: 8, WaitingPerOwner: 4})
}

func must(t *testing.T, p *Pool, owner, part string) func() {
	t.Helper()
	release, ok := p.Try(owner, part)
	require.True(t, ok, "%s %s", owner, part)
	return release
}

func refused(t *testing.T, p *Pool, owner, part string) {
	t.Helper()
	_, ok := p.Try(owner, part)
	require.False(t, ok, "%s %s", owner, part)
}

func TestSharesOfPartOwnerAndPool(t *testing.T) {
	t.Parallel()
	p := pool()
	must(t, p, "a", "x")
	release := must(t, p, "a", "x")
	refused(t, p, "a", "x")
	must(t, p, "a", "y")
	refused(t, p, "a", "y")
	must(t, p, "b", "x")
	must(t, p, "b", "x")
	must(t, p, "b", "y")
	refused(t, p, "c", "x")
	release()
	must(t, p, "c", "x")
}

func TestOwnersAreServedByTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{Total: 1, PerOwner: 1, PerPart: 1, Waiting: 9, WaitingPerOwner: 9})
		first := must(t, p, "a", "x")
		var mu sync.Mutex
		var order []string
		for _, name := range []string{"a1", "a2", "a3", "b1", "c1"} {
			go func() {
				release, err := p.Take(t.Context(), name[:1], "x")
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				release()
			}()
			synctest.Wait() // they arrive in this order
		}
		first()
		synctest.Wait()
		require.Equal(t, []string{"a1", "b1", "c1", "a2", "a3"}, order)
		require.Empty(t, p.owners, "nothing stays behind")
		require.Zero(t, p.turns.Len())
	})
}

func TestAPartThatHangsLeavesPlacesToTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool()
		must(t, p, "a", "hangs")
		must(t, p, "a", "hangs")
		ctx, cancel := context.WithCancel(t.Context())
		var stopped atomic.Int64
		for range 2 {
			go func() {
				if _, err := p.Take(ctx, "a", "hangs"); errors.Is(err, context.Canceled) {
					stopped.Add(1)
				}
			}()
		}
		synctest.Wait()
		must(t, p, "a", "answers")()
		must(t, p, "b", "x")()
		cancel()
		synctest.Wait()
		require.EqualValues(t, 2, stopped.Load())
		require.Zero(t, p.waiting)
	})
}

func TestTooManyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool()
		for range 2 {
			must(t, p, "a", "x")
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 4 {
			go func() { _, _ = p.Take(ctx, "a", "x") }()
		}
		synctest.Wait()
		_, err := p.Take(t.Context(), "a", "x")
		require.ErrorIs(t, err, ErrFull)
		cancel()
		synctest.Wait()
		require.Zero(t, p.waiting)
	})
}

// However calls come and go, no limit is passed, and everything is given back.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	p := New(Limits{Total: 6, PerOwner: 3, PerPart: 2, Waiting: 1000, WaitingPerOwner: 1000})
	var wg sync.WaitGroup
	var all atomic.Int64
	var each [4]atomic.Int64
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 0 {
				cancel()
			}
			n := i % 4
			release, err := p.Take(ctx, string(rune('a'+n)), string(rune('x'+i%3)))
			if err != nil {
				return
			}
			if all.Add(1) > 6 || each[n].Add(1) > 3 {
				t.Error("a limit was passed")
			}
			each[n].Add(-1)
			all.Add(-1)
			release()
		})
	}
	wg.Wait()
	require.Zero(t, p.taken)
	require.Zero(t, p.waiting)
	require.Empty(t, p.owners)
}

// Places may be bytes. A large taker waits for its turn, and is not passed over by smaller
// ones of its owner.
func TestSeveralPlacesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{Total: 8, PerOwner: 4, PerPart: 4, Waiting: 9, WaitingPerOwner: 9})
		first, err := p.TakeSome(t.Context(), "a", "", 3)
		require.NoError(t, err)
		var order []int
		for _, n := range []int{4, 1} {
			go func() {
				release, err := p.TakeSome(t.Context(), "a", "", n)
				if err == nil {
					order = append(order, n)
					release()
				}
			}()
			synctest.Wait()
		}
		other, err := p.TakeSome(t.Context(), "b", "", 100)
		require.NoError(t, err, "more than its share counts as all of it")
		require.Equal(t, 7, p.taken)
		require.Empty(t, order)
		first()
		synctest.Wait()
		require.Equal(t, []int{4, 1}, order)
		other()
		require.Zero(t, p.taken)
		require.Empty(t, p.owners)
	})
}

// A large taker that gives up was in the way of a smaller one, for which there is room.
func TestTakerThatGivesUpLetsOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{Total: 4, PerOwner: 4, PerPart: 4, Waiting: 9, WaitingPerOwner: 9})
		_, err := p.TakeSome(t.Context(), "a", "", 3)
		require.NoError(t, err)
		ctx, giveUp := context.WithCancel(t.Context())
		gone, taken := make(chan error, 1), make(chan error, 1)
		go func() { _, err := p.TakeSome(ctx, "a", "", 4); gone <- err }()
		synctest.Wait()
		go func() { _, err := p.TakeSome(t.Context(), "a", "", 1); taken <- err }()
		synctest.Wait()
		require.Empty(t, taken)
		giveUp()
		require.Error(t, <-gone)
		synctest.Wait()
		require.Len(t, taken, 1)
		require.NoError(t, <-taken)
	})
}
