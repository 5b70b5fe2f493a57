package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU time in /proc (sysconf(_SC_CLK_TCK), 100 on Linux).
const clockTick = time.Second / 100

// CPU returns the CPU time of this process and its living descendants.
func CPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0
	}
	total := time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	procs := readProcs()
	for _, p := range procs {
		if descends(procs, p.pid, os.Getpid()) {
			total += p.cpu
		}
	}
	return total
}

// Resident returns the resident memory of this process and its descendants, in bytes.
func Resident() int64 {
	procs := readProcs()
	var total int64
	for _, p := range procs {
		if p.pid == os.Getpid() || descends(procs, p.pid, os.Getpid()) {
			total += p.rss
		}
	}
	return total
}

// Proportional returns the memory of this process and its descendants with what they
// share counted once (PSS), in bytes. Resident counts Postgres' shared buffers once for
// each of its processes that has touched them.
func Proportional() int64 {
	procs := readProcs()
	var total int64
	for _, p := range procs {
		if p.pid == os.Getpid() || descends(procs, p.pid, os.Getpid()) {
			total += pss(p.pid)
		}
	}
	return total
}

// pss reads the line "Pss: <n> kB"; 0 for a process that has ended.
func pss(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

type proc struct {
	pid, parent int
	cpu         time.Duration
	rss         int64
}

func readProcs() map[int]proc {
	out := map[int]proc{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name is in parentheses and may contain anything; the fields follow the last one.
		_, rest, ok := strings.Cut(string(text), ") ")
		f := strings.Fields(rest)
		if !ok || len(f) < 22 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(f[1])
		var ticks int64
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, and those of children that ended
			n, _ := strconv.ParseInt(f[i], 10, 64)
			ticks += n
		}
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		out[pid] = proc{pid: pid, parent: parent, cpu: time.Duration(ticks) * clockTick, rss: pages * int64(os.Getpagesize())}
	}
	return out
}

func descends(procs map[int]proc, pid, ancestor int) bool {
	for range 64 {
		p, known := procs[pid]
		if !known || p.parent == 0 {
			return false
		}
		if p.parent == ancestor {
			return true
		}
		pid = p.parent
	}
	return false
}
