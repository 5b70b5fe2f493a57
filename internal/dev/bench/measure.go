package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Op is one request of a client.
type Op func(ctx context.Context) error

// step brings something about.
type step func(ctx context.Context) error

// group is scenarios that are measured on one start of the service.
type group struct {
	setUp     step
	scenarios []scenario
}

// side is a request and how many clients make it.
type side struct {
	what    string
	clients int
	request Op
}

func (s side) String() string { return fmt.Sprintf("%s, %d", s.what, s.clients) }

// scenario is one row of the table: a request and the one that it is divided by.
type scenario struct {
	side

	by side
	// setUp comes before all, change between the two. Without change they are measured in turns.
	setUp, change step
	// long is how many times as long as others its rounds are, where it is about the slowest.
	long  int
	goals []goal
}

func (s scenario) name() string { return s.String() + " / " + s.by.String() }

// figure is what a goal is about.
type figure string

// The first four are ratios of the two requests.
const (
	rate   figure = "rate"
	p50    figure = "p50"
	p99    figure = "p99"
	cpu    figure = "CPU"
	trips  figure = "SQL trips"
	writes figure = "Temporal writes"
)

type goal struct {
	figure figure
	// atLeast, or atMost where that is set instead.
	atLeast, atMost float64
}

func (g goal) met(is float64) bool { return is >= g.atLeast && (g.atMost == 0 || is <= g.atMost) }

func (g goal) String() string {
	if g.atMost > 0 {
		return fmt.Sprintf("%s ≤ %g", g.figure, g.atMost)
	}
	return fmt.Sprintf("%s ≥ %g", g.figure, g.atLeast)
}

// sample is what one round or several rounds of a request have taken.
type sample struct {
	took         []time.Duration // sorted
	elapsed, cpu time.Duration
	sql, writes  int64
}

// load lets clients make the request one after the other for as long as d. The first error ends it.
func (b *benchmark) load(ctx context.Context, s side, d time.Duration) (sample, error) {
	var (
		failed atomic.Pointer[error]
		all    sync.WaitGroup
		took   = make([][]time.Duration, s.clients)
		spent  = CPU()
		sql    = b.trips.Count()
		wrote  = b.writes.Load()
		began  = time.Now()
	)
	for c := range s.clients {
		all.Go(func() {
			for time.Since(began) < d && failed.Load() == nil {
				start := time.Now()
				if err := s.request(ctx); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
				took[c] = append(took[c], time.Since(start))
			}
		})
	}
	all.Wait()
	out := sample{elapsed: time.Since(began), cpu: CPU() - spent, sql: b.trips.Count() - sql, writes: b.writes.Load() - wrote}
	out.took = slices.Sorted(slices.Values(slices.Concat(took...)))
	if err := failed.Load(); err != nil {
		return out, *err
	}
	return out, nil
}

// pool is several rounds as if they were one.
func pool(rounds []sample) (all sample) {
	for _, s := range rounds {
		all.took = append(all.took, s.took...)
		all.elapsed += s.elapsed
		all.cpu += s.cpu
		all.sql += s.sql
		all.writes += s.writes
	}
	slices.Sort(all.took)
	return all
}

// is returns a figure for one request: requests a second, milliseconds, or a number.
func (s sample) is(f figure) float64 {
	n := float64(len(s.took))
	switch f {
	case rate:
		return n / s.elapsed.Seconds()
	case p50:
		return milliseconds(s.took[len(s.took)/2])
	case p99:
		return milliseconds(s.took[len(s.took)*99/100])
	case cpu:
		return milliseconds(s.cpu) / n
	case trips:
		return float64(s.sql) / n
	case writes:
		return float64(s.writes) / n
	}
	return 0
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// result is what was measured of a scenario, round by round.
type result struct {
	scenario

	one, base []sample
}

// measure is the only loop. It makes rounds of the two requests in turns: a machine that gets slower
// meanwhile, and what the scenario before has left to do, is the same for both then. Which of them goes
// first changes, because what the first has left to do slows the second. Where something changes in
// between, all rounds of the base come before.
func (b *benchmark) measure(ctx context.Context, s scenario) (r result, err error) {
	r = result{scenario: s}
	var warm []sample // what was brought about before has left something to do
	round := func(x side, into *[]sample, times int) {
		if err == nil {
			var took sample
			took, err = b.load(ctx, x, b.Round*time.Duration(times*max(1, s.long)))
			*into = append(*into, took)
		}
	}
	bring := func(about step) {
		if about != nil && err == nil {
			err = about(ctx)
		}
	}
	bring(s.setUp)
	round(s.by, &warm, 1)
	for i := range b.Pairs {
		if s.change != nil || i%2 == 1 {
			round(s.by, &r.base, 1)
		}
		if s.change == nil {
			round(s.side, &r.one, 1)
		}
		if s.change == nil && i%2 == 0 {
			round(s.by, &r.base, 1)
		}
	}
	if s.change != nil {
		bring(s.change)
		round(s.side, &warm, 1+b.Pairs/5)
		for range b.Pairs {
			round(s.side, &r.one, 1)
		}
	}
	return r, err
}

// is returns a figure of the scenario, and its least and most in the pairs where these are compared. A
// pair has too few of the slowest, so p99 is a ratio of all requests.
func (r result) is(f figure) (is, least, most float64) {
	switch f {
	case trips, writes:
		is = pool(r.one).is(f)
		return is, is, is
	case p99:
		is = pool(r.one).is(f) / pool(r.base).is(f)
		return is, is, is
	default:
		all := make([]float64, len(r.one))
		for i := range all {
			all[i] = r.one[i].is(f) / r.base[i].is(f)
		}
		slices.Sort(all)
		return all[len(all)/2], all[0], all[len(all)-1]
	}
}

// missed is how many goals are not met.
func (r result) missed() (n int) {
	for _, g := range r.goals {
		if is, _, _ := r.is(g.figure); !g.met(is) {
			n++
		}
	}
	return n
}
