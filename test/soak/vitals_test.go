package soak

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// vitals are what a process occupies at one moment. Sizes are in bytes; heap is what was
// live after the last collection.
type vitals struct {
	resident, heap, goroutines, connections int64
}

// measures are the parts of vitals, with how much more the end of a life may have than its
// beginning: a factor, and what a measure moves by for no reason.
func measures() []struct {
	name   string
	of     func(vitals) int64
	factor float64
	slack  int64
} {
	return []struct {
		name   string
		of     func(vitals) int64
		factor float64
		slack  int64
	}{
		{"resident", func(v vitals) int64 { return v.resident }, 1.25, 32 << 20},
		{"live heap", func(v vitals) int64 { return v.heap }, 1.25, 8 << 20},
		{"goroutines", func(v vitals) int64 { return v.goroutines }, 1.25, 50},
		// The pool of a process has 7 to 16, as the last burst has left it.
		{"connections", func(v vitals) int64 { return v.connections }, 1.25, 10},
	}
}

// said is what processes say of themselves; see internal/base/failpoint.
type said struct {
	mu    sync.Mutex
	byPid map[int]vitals
}

// ServeHTTP implements http.Handler.
func (s *said) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(r.FormValue(name), 10, 64) // 0 shows in the report
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byPid[int(number("pid"))] = vitals{heap: number("heap"), goroutines: number("goroutines")}
}

func (s *said) of(pid int) (vitals, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, known := s.byPid[pid]
	return v, known
}

// life is one start of a process with what it occupied every second.
type life struct {
	name    string
	samples []vitals
}

// lives keeps the lives of all parts; a restart begins a new one.
type lives map[int]*life

func (l lives) add(pid int, name string, v vitals) {
	if l[pid] == nil {
		l[pid] = &life{name: name}
	}
	l[pid].samples = append(l[pid].samples, v)
}

// longest returns the longest life of each part.
func (l lives) longest() map[string]*life {
	best := map[string]*life{}
	for _, one := range l {
		if best[one.name] == nil || len(best[one.name].samples) < len(one.samples) {
			best[one.name] = one
		}
	}
	return best
}

// enough is how many samples a life needs to be judged: a minute's.
const enough = 60

// growth judges a life by the medians of its second and its last sixth. The first one is
// the start: caches fill and pools open. It returns what grew, and a line for the reader.
func (l life) growth() (grown []string, line string) {
	sixth := len(l.samples) / 6
	if len(l.samples) < enough {
		return []string{fmt.Sprintf("%s lived only %d s in one piece, too short to judge", l.name, len(l.samples))}, ""
	}
	told := []string{fmt.Sprintf("%-9s %4d s", l.name, len(l.samples))}
	for _, m := range measures() {
		before, after := median(l.samples[sixth:2*sixth], m.of), median(l.samples[len(l.samples)-sixth:], m.of)
		told = append(told, fmt.Sprintf("%s %s -> %s", m.name, shown(m.name, before), shown(m.name, after)))
		if float64(after) > m.factor*float64(before)+float64(m.slack) {
			grown = append(grown, fmt.Sprintf("%s: %s grew from %s to %s in %d s", l.name, m.name, shown(m.name, before), shown(m.name, after), len(l.samples)))
		}
		if after == 0 {
			grown = append(grown, fmt.Sprintf("%s: %s was not measured", l.name, m.name))
		}
	}
	return grown, strings.Join(told, "  ")
}

func shown(measure string, n int64) string {
	if measure == "resident" || measure == "live heap" {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return strconv.FormatInt(n, 10)
}

func median(samples []vitals, of func(vitals) int64) int64 {
	values := make([]int64, 0, len(samples))
	for _, v := range samples {
		values = append(values, of(v))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// judged judges the longest life of each part.
func (l lives) judged() (grown []string, report string) {
	best := l.longest()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(best)) {
		more, line := best[name].growth()
		grown, lines = append(grown, more...), append(lines, line)
	}
	return grown, strings.Join(lines, "\n")
}

func TestLivesGrowthIsFound(t *testing.T) {
	t.Parallel()
	at := func(int) vitals {
		return vitals{resident: 100 << 20, heap: 20 << 20, goroutines: 200, connections: 16}
	}
	for name, c := range map[string]struct {
		sample func(n int) vitals
		count  int
		want   string
	}{
		"flat":            {at, 600, ""},
		"a slow start":    {func(n int) vitals { v := at(n); v.heap = int64(min(n, 90)+1) * (20 << 20) / 91; return v }, 600, ""},
		"a spike":         {func(n int) vitals { v := at(n); v.resident <<= n / 560 % 2 * 2 * (n % 2); return v }, 600, ""},
		"leaking heap":    {func(n int) vitals { v := at(n); v.heap += int64(n) << 16; return v }, 600, "live heap grew"},
		"leaking RSS":     {func(n int) vitals { v := at(n); v.resident += int64(n) << 18; return v }, 600, "resident grew"},
		"goroutines":      {func(n int) vitals { v := at(n); v.goroutines += int64(n); return v }, 600, "goroutines grew"},
		"connections":     {func(n int) vitals { v := at(n); v.connections += int64(n / 15); return v }, 600, "connections grew"},
		"not measured":    {func(n int) vitals { v := at(n); v.heap = 0; return v }, 600, "live heap was not measured"},
		"never long":      {at, 59, "too short to judge"},
		"a shrinking one": {func(n int) vitals { v := at(n); v.heap -= int64(n) << 10; return v }, 600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lives{}
			for n := range c.count {
				l.add(1, "api", c.sample(n))
			}
			l.add(2, "api", vitals{resident: 1 << 40}) // a shorter life does not count
			grown, _ := l.judged()
			if c.want == "" {
				require.Empty(t, grown)
				return
			}
			require.Contains(t, strings.Join(grown, "\n"), c.want)
		})
	}
}

// took are how long calls took, for the reader.
type took []time.Duration

func (d took) String() string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	at := func(share float64) time.Duration { return d[int(share*float64(len(d)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("median %s, 95 %% %s, 99 %% %s, longest %s", at(0.5), at(0.95), at(0.99), at(1))
}
