package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/process/config"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestProcessWithoutARoleOrWithTheWrongLaneIsRefused(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), config.Config{}, Roles{}, quiet())
	require.ErrorContains(t, err, "needs a role")
	_, err = New(t.Context(), config.Config{StartLane: "eager"}, Roles{API: true}, quiet())
	require.ErrorContains(t, err, "START_LANE=eager")
}

func TestJobRepeatsAfterAFailureUntilItsProcessEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		a := &App{log: quiet()}
		a.repeat(ctx, job{"count", time.Minute, func(context.Context) error {
			if at = append(at, time.Since(began)); len(at) == 3 {
				cancel()
			}
			return errors.New("failed")
		}})
		require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, at)
	})
}

func TestCloseUndoesInReverseOrder(t *testing.T) {
	t.Parallel()
	a := &App{}
	var order []int
	for i := range 3 {
		a.onClose(func() { order = append(order, i) })
	}
	a.Close()
	a.Close()
	require.Equal(t, []int{2, 1, 0}, order)
}

func TestTrialWritesAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("the disk is full")
		writes, result := 0, error(nil)
		var tried trial
		ask := func() error {
			return tried.try(t.Context(), func(context.Context) error {
				writes++
				return result
			})
		}
		require.NoError(t, ask())
		result = full
		require.NoError(t, ask())
		pass(time.Second)
		require.ErrorIs(t, ask(), full)
		require.ErrorIs(t, ask(), full)
		result = nil
		pass(time.Second)
		require.NoError(t, ask())
		require.Equal(t, 3, writes)
	})
}

// pass lets the bubble's clock run.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
