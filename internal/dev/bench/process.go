package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU time in /proc (sysconf(_SC_CLK_TCK), 100 on Linux).
const clockTick = time.Second / 100

// idleShare is how much of one core others may use on a machine that counts as idle. A ratio
// of two rates moves by less than 5 % then, on two cores.
const idleShare = 0.1

// idle says whether the machine was idle while others used so much of a core at most.
func idle(others float64) string {
	if others > idleShare {
		return fmt.Sprintf("the machine was NOT IDLE: others used up to %.2f cores, so the ratios say little", others)
	}
	return fmt.Sprintf("the machine was idle: others used at most %.2f cores", others)
}

// beside returns how much of a core others use while f runs. Descendants that end while f runs
// count as others, so f must not start any.
func beside(f func() error) (float64, error) {
	all, own, began := busy(), CPU(), time.Now()
	err := f()
	share := (busy() - all - (CPU() - own)).Seconds() / time.Since(began).Seconds()
	return max(share, 0), err
}

// busy returns the CPU time that the machine has spent since it was started, on all cores, without
// idle time. It is 0 where /proc/stat is missing.
func busy() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal; what follows is counted in user.
	return ticks(strings.Fields(line), 1, 2, 3, 6, 7, 8)
}

// ticks adds up fields in clock ticks.
func ticks(fields []string, which ...int) (sum time.Duration) {
	for _, i := range which {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			sum += time.Duration(n) * clockTick
		}
	}
	return sum
}

// CPU returns the CPU time of this process and its living descendants.
func CPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0
	}
	total := time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	parents, spent := map[int]int{}, map[int]time.Duration{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		// The name is in parentheses and may contain anything; the fields follow the last one.
		f := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		if len(f) < 2 {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parents[pid], _ = strconv.Atoi(f[1])
		spent[pid] = ticks(f, 11, 12, 13, 14) // utime, stime, and those of children that ended
	}
	for pid, took := range spent {
		for up := parents[pid]; up > 0; up = parents[up] {
			if up == os.Getpid() {
				total += took
			}
		}
	}
	return total
}
