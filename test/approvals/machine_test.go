package approvals

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedOf returns the seed of the first sequence: another one each time, unless the
// environment variable APPROVALS_SEED names that of one which failed.
func seedOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv("APPROVALS_SEED")
	if text == "" {
		return int(time.Now().UnixNano() % 1e9)
	}
	seed, err := strconv.Atoi(text)
	require.NoError(t, err, "APPROVALS_SEED is a number")
	return seed
}

// play makes the moves that the seed stands for, and holds what came of them against
// the invariants.
func play(t *testing.T, seed, length int, statuses map[string]int) {
	t.Helper()
	steps := sequences(length).Example(seed)
	w := newWorld(t)
	t.Cleanup(func() {
		if len(w.dead) > 0 {
			w.restart()
		}
		if t.Failed() {
			t.Logf("to play it again: APPROVALS_SEED=%d\nmoves: %v\nwhat happened:\n%s", seed, steps, strings.Join(w.said, "\n"))
		}
	})
	w.begin()
	began := time.Now()
	for _, s := range steps {
		w.make(s)
	}
	played := time.Since(began)
	w.restart()
	settled := w.settle()
	w.finish()
	for status, n := range w.check(false) {
		statuses[status] += n
	}
	t.Logf("seed %d: %d moves in %.1fs, in order %.1fs later, %d calls; approvals so far %v", seed, length, played.Seconds(), settled.Seconds(), len(w.calls), statuses)
}

func decode(t *testing.T, raw json.RawMessage, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, into))
}

// shortMoves is a sequence that fits into the tests.
const shortMoves = 40

// Random steps, and the promises that must be true after them.
func TestHeldRunsRandomStepsKeepPromises(t *testing.T) { //nolint:paralleltest // it kills what the others would stand on
	play(t, seedOf(t), shortMoves, map[string]int{})
}
