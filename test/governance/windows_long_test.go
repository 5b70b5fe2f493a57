//go:build chaos

package governance

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChaosCallsAtOnceNeverExceedAWindow(t *testing.T) { //nolint:paralleltest // alone, for a time that means something
	rounds := 1000
	if text := os.Getenv("CHAOS_RUNS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err, "CHAOS_RUNS is a number of rounds")
	}
	began := time.Now()
	windowRounds(t, rounds)
	t.Logf("%d rounds in %s", rounds, time.Since(began).Round(time.Second))
}
