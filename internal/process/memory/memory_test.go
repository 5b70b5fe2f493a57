package memory

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllowedIsTheLeastLimit(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:        8000000 kB\nMemFree: 1 kB\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no file":               {nil, 0},
		"the machine":           {map[string]string{"proc/meminfo": machine}, 8000000 << 10},
		"a container":           {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"no limit":              {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 8000000 << 10},
		"a group above":         {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1048576\n", "sys/fs/cgroup/a/b/memory.max": "2097152\n"}, 1 << 20},
		"more than the machine": {map[string]string{"proc/meminfo": machine, "sys/fs/cgroup/memory.max": "99999999999999\n"}, 8000000 << 10},
		"not a number":          {map[string]string{"proc/meminfo": "MemTotal: many\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for file, text := range tt.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
			}
			require.Equal(t, tt.want, allowed(root))
		})
	}
}

// Not parallel: the collector and the environment are the process's.
func TestTuneLeavesWhatTheEnvironmentSays(t *testing.T) {
	before := debug.SetGCPercent(100)
	limit := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetGCPercent(before); debug.SetMemoryLimit(limit) })

	t.Setenv("GOGC", "77")
	t.Setenv("GOMEMLIMIT", "1GiB")
	Tune(slog.New(slog.DiscardHandler))
	require.Equal(t, 100, debug.SetGCPercent(100), "the environment set it when the process began")
	require.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1))

	require.NoError(t, os.Unsetenv("GOGC"))
	require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
	Tune(slog.New(slog.DiscardHandler))
	require.Equal(t, percent, debug.SetGCPercent(100))
	require.Less(t, debug.SetMemoryLimit(-1), int64(math.MaxInt64))
}

//nolint:paralleltest // the collector is the process's
func TestFrugalEndsWithTheLastThatAskedForIt(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percentIs := func(want int) {
		t.Helper()
		got := debug.SetGCPercent(want)
		require.Equal(t, want, got)
	}
	for usual, during := range map[int]int{percent: frugalPercent, 100: frugalPercent, 20: 20, -1: -1} {
		debug.SetGCPercent(usual)
		first := Frugal()
		percentIs(during)
		second := Frugal()
		first()
		first() // a second call does nothing
		percentIs(during)
		second()
		percentIs(usual)
	}
}

//nolint:paralleltest // the collector is the process's
func TestFrugalGivesMemoryBack(t *testing.T) {
	before := debug.SetGCPercent(percent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	const size = 64 << 20
	done := Frugal()
	large := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		large[i] = 1
	}
	var with, without runtime.MemStats
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(large)
	done()
	runtime.ReadMemStats(&without)
	require.Less(t, without.Sys-without.HeapReleased, with.Sys-with.HeapReleased-size/2)
}
