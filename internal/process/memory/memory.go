// Package memory sets how the garbage collector of a process trades memory for CPU time. The
// commands that serve call it once. Work that takes much memory calls it while it lasts. It reads
// what the machine and the control group allow, and changes nothing else.
package memory

import (
	"log/slog"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// percent is the growth of the heap, in percent of what is live, after which it is collected.
	// Most of what a request allocates is garbage when it is answered, and a live heap is some
	// 30 MB. So it is collected less often than with Go's 100.
	percent = 400
	// share is the part of the allowed memory from which the collector works harder, in percent.
	// The rest is for what Go does not count, and for a heap that grows meanwhile.
	share = 80
)

// Tune sets the collector's percent and the soft limit of its memory, where the environment
// (GOGC, GOMEMLIMIT) does not say. Without a limit that can be read it leaves Go's defaults:
// a heap that may grow fivefold needs one.
func Tune(log *slog.Logger) {
	limit := allowed("/")
	if _, set := os.LookupEnv("GOMEMLIMIT"); set {
		limit = debug.SetMemoryLimit(-1)
	} else if limit > 0 {
		limit = limit / 100 * share
		debug.SetMemoryLimit(limit)
	}
	if limit <= 0 {
		return
	}
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
	log.Debug("garbage collector set", "memory_limit", limit)
}

// allowed returns how many bytes the process may use: the least of the machine's memory and of
// the limits of its control group (version 2) and those above it; 0 where none can be read. root
// is "/", except in tests.
func allowed(root string) int64 {
	least := int64(math.MaxInt64)
	note := func(n int64, ok bool) {
		if ok && n > 0 {
			least = min(least, n)
		}
	}
	note(machine(read(root, "proc/meminfo")))
	for group := group(read(root, "proc/self/cgroup")); ; group = path.Dir(group) {
		note(number(read(root, "sys/fs/cgroup", group, "memory.max")))
		if group == "/" || group == "." {
			break
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// machine reads the line "MemTotal: <n> kB".
func machine(meminfo string) (int64, bool) {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, known := number(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return n << 10, known
		}
	}
	return 0, false
}

// group reads the line "0::<path>"; "/" where there is none.
func group(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			return path.Clean("/" + strings.TrimSpace(rest))
		}
	}
	return "/"
}

// number is false for "max", which stands for no limit.
func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil
}

// read returns the text of a file, "" where it cannot be read.
func read(parts ...string) string {
	text, err := os.ReadFile(filepath.Join(parts...)) //nolint:gosec // paths of the kernel
	if err != nil {
		return ""
	}
	return string(text)
}
