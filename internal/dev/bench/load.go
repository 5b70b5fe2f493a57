// Package bench measures the running service: rate, latency, CPU, allocations, SQL round
// trips and Temporal writes for each request. The bench command of the development
// binary calls Run and starts the servers for it. Figures are compared as ratios within
// one run. They are never asserted as times.
package bench

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Op is one request of a client; i counts up over all clients.
type Op func(ctx context.Context, i int64) error

// Cost is what the process and its helpers have spent so far.
type Cost struct {
	CPU time.Duration
	// SQL counts round trips to Postgres, Writes those of Temporal to its main store.
	SQL, Writes int64
}

// Sample is the outcome of one round.
type Sample struct {
	Clients            int
	Requests           int64
	Errors             int64
	FirstError         error   `json:"-"`
	Rate               float64 // requests a second
	P50, P95, P99, Max time.Duration
	CPU                time.Duration // per request
	Allocs             float64       // heap objects per request, of this process with the client in it
	SQL, Writes        float64       // per request
}

// Load lets clients call op one after the other for as long as d and measures it.
func Load(ctx context.Context, clients int, d time.Duration, cost func() Cost, op Op) Sample {
	var (
		next, failed atomic.Int64
		firstErr     error
		once         sync.Once
		wg           sync.WaitGroup
		took         = make([][]time.Duration, clients)
		before       = cost()
		mem          runtime.MemStats
	)
	runtime.ReadMemStats(&mem)
	allocs := mem.Mallocs
	began := time.Now()
	for c := range clients {
		wg.Go(func() {
			for time.Since(began) < d {
				start := time.Now()
				if err := op(ctx, next.Add(1)); err != nil {
					failed.Add(1)
					once.Do(func() { firstErr = err })
				}
				took[c] = append(took[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	runtime.ReadMemStats(&mem)
	after := cost()
	all := slices.Concat(took...)
	slices.Sort(all)
	n := float64(len(all))
	at := func(q float64) time.Duration { return all[min(len(all)-1, int(q*n))] }
	return Sample{
		Clients: clients, Requests: int64(len(all)), Errors: failed.Load(), FirstError: firstErr, Rate: n / elapsed.Seconds(),
		P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: all[len(all)-1],
		CPU: time.Duration(float64(after.CPU-before.CPU) / n), Allocs: float64(mem.Mallocs-allocs) / n,
		SQL: float64(after.SQL-before.SQL) / n, Writes: float64(after.Writes-before.Writes) / n,
	}
}

// Median returns the sample with the middle rate. Its Max is the largest and its
// Errors are the sum of all: a stall does not hide behind a median.
func Median(samples []Sample) Sample {
	s := slices.Clone(samples)
	slices.SortFunc(s, func(a, b Sample) int { return cmp.Compare(a.Rate, b.Rate) })
	m := s[len(s)/2]
	m.Errors = 0
	for _, x := range s {
		m.Max = max(m.Max, x.Max)
		m.Errors += x.Errors
		if m.FirstError == nil {
			m.FirstError = x.FirstError
		}
	}
	return m
}
