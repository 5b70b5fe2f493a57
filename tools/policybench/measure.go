package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// cost is what one decision takes, on average over the calls.
type cost struct{ nanoseconds, bytes, allocs float64 }

// rounds are how often each engine is measured, in turns; the cheapest round counts.
// The time is that of the processor, garbage collection included, so that what else
// the machine does hardly shows.
const (
	rounds  = 7
	atLeast = 50 * time.Millisecond
)

func compare(engines []engine, calls int) ([]cost, error) {
	best := make([]cost, len(engines))
	for round := range rounds {
		for i, e := range engines {
			c, err := measure(e, calls)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name(), err)
			}
			if round == 0 || c.nanoseconds < best[i].nanoseconds {
				best[i] = c
			}
		}
	}
	return best, nil
}

// measure decides about all calls again and again until the time says something.
func measure(e engine, calls int) (cost, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, n := processor(), 0
	var took time.Duration
	for took < atLeast {
		for i := range calls {
			if _, err := e.decide(i); err != nil {
				return cost{}, err
			}
		}
		n += calls
		took = processor() - start
	}
	runtime.ReadMemStats(&after)
	per := func(total uint64) float64 { return float64(total) / float64(n) }
	return cost{per(uint64(took)), per(after.TotalAlloc - before.TotalAlloc), per(after.Mallocs - before.Mallocs)}, nil
}

// processor is the time that this process has computed so far.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it takes no input that could be wrong
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
