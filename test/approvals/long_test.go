//go:build chaos

package approvals

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longMoves is long enough for moves to meet what earlier ones have left.
const longMoves = 120

// sequencesOf reads how many sequences are played.
func sequencesOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CHAOS_RUNS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "CHAOS_RUNS is a number of sequences")
	return n
}

func TestChaosHeldRunsRandomStepsKeepPromises(t *testing.T) { //nolint:paralleltest // it kills what the others would stand on
	statuses, first, began := map[string]int{}, seedOf(t), time.Now()
	for i := range sequencesOf(t) { //nolint:paralleltest // as above
		t.Run(strconv.Itoa(first+i), func(t *testing.T) {
			play(t, first+i, longMoves, statuses)
		})
	}
	t.Logf("%.1f sequences a minute", float64(sequencesOf(t))/time.Since(began).Minutes())
}
