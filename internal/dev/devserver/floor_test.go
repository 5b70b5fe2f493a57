package devserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// bare is the least that an action run can cost: two local activities that do nothing.
func bare(ctx workflow.Context) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Second})
	for range 2 {
		if err := workflow.ExecuteLocalActivity(ctx, nothing).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context) error { return nil }

// BenchmarkFloor measures the bare workflow, started eagerly with its worker in
// the same process, on the server as start-dev runs it and as we do. Run it with
//
//	go test -run '^$' -bench Floor -benchtime 3000x ./internal/dev/devserver
func BenchmarkFloor(b *testing.B) {
	b.Run("start-dev", func(b *testing.B) {
		benchmarkFloor(b, func(dir string) TemporalConfig {
			return TemporalConfig{Dir: filepath.Join(dir, "temporal"), Shards: 1, Stock: true}
		})
	})
	b.Run("ours", func(b *testing.B) {
		benchmarkFloor(b, func(dir string) TemporalConfig {
			url := startPostgres(b, dir).SuperuserURL("visibility")
			return TemporalConfig{Dir: filepath.Join(dir, "temporal"), Shards: 4, VisibilityURL: url}
		})
	})
}

func benchmarkFloor(b *testing.B, configure func(dir string) TemporalConfig) {
	b.Helper()
	server := startTemporal(b, configure(openDir(b)))
	c := dial(b, server.Addr)
	w := worker.New(c, "floor", worker.Options{MaxConcurrentWorkflowTaskPollers: 8})
	w.RegisterWorkflow(bare)
	require.NoError(b, w.Start())
	b.Cleanup(w.Stop)
	runBare(b, c, 200, 16) // warm up
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			before := cpuTime()
			took := runBare(b, c, b.N, clients)
			report(b, took)
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/run")
			b.ReportMetric(residentMB(), "MB-rss")
		})
	}
}

// runBare runs n workflows with the given number of clients and returns how
// long each took.
func runBare(b *testing.B, c client.Client, n, clients int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	var next atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for range clients {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				start := time.Now()
				run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{
					ID: uuid.NewString(), TaskQueue: "floor", EnableEagerStart: true,
				}, bare)
				if err == nil {
					err = run.Get(b.Context(), nil)
				}
				if err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	return took
}

func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[min(len(took)-1, int(q*float64(len(took))))].Microseconds()) / 1000
	}
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "runs/s")
	b.ReportMetric(at(0.50), "ms-p50")
	b.ReportMetric(at(0.95), "ms-p95")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(at(1), "ms-max")
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentMB is this process's resident memory (Linux; 0 elsewhere).
func residentMB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		return 0
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
