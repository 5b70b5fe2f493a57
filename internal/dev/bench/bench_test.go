package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMachineIsIdleBelowItsShare(t *testing.T) {
	t.Parallel()
	for others, want := range map[float64]bool{0: true, 0.1: true, 0.2: false, 1.5: false} {
		require.Equal(t, want, !strings.Contains(idle(others), "NOT IDLE"), others)
	}
	require.Equal(t, 2220*time.Millisecond, ticks(strings.Fields("cpu 100 20 30 4000 500 6 7 59 8 9"), 1, 2, 3, 6, 7, 8))
}

// rounds are some of which each makes as many requests a second as it says, with two SQL trips each.
func rounds(rates ...int) (all []sample) {
	for _, n := range rates {
		took := make([]time.Duration, n)
		for i := range took {
			took[i] = time.Second / time.Duration(n)
		}
		all = append(all, sample{took: took, elapsed: time.Second, sql: int64(2 * n)})
	}
	return all
}

func TestPageGetsTheTableBetweenItsMarks(t *testing.T) {
	t.Parallel()
	r := result{
		scenario: scenario{
			side: side{what: "run", clients: 16}, by: side{what: "floor", clients: 16},
			goals: []goal{{rate, 0.6, 0}, {trips, 0, 2}, {p50, 0, 1.5}},
		},
		one: rounds(50, 60, 90), base: rounds(100, 100, 100),
	}
	require.Equal(t, 1, r.missed())
	page := filepath.Join(t.TempDir(), "costs.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n"+tableBegins+"an old table\n"+tableEnds+"after\n"), 0o600))
	cfg := Config{Pairs: 3, Round: time.Second, Page: page}
	for range 2 { // the second in the place of the first
		require.NoError(t, writePage(cfg, []result{r}, 0))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Regexp(t, "^before\n"+tableBegins+"\n\\| Request", string(text))
	require.Contains(t, string(text), "| run, 16 | floor, 16 | 67 |")
	require.Contains(t, string(text), "| rate ≥ 0.6: 0.60 (0.50 to 0.90); SQL trips ≤ 2: 2.00; p50 ≤ 1.5: 1.67 (1.11 to 2.00) MISSED |")
	require.True(t, strings.HasSuffix(string(text), "others used at most 0.00 cores.\n\n"+tableEnds+"after\n"), string(text))
	require.Error(t, writePage(Config{Page: os.DevNull}, nil, 0))
}
