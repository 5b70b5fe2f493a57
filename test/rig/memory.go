package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// PeakResident returns the most memory in bytes that the process itself, without its
// children, has had resident since it started (VmHWM).
func (p *Process) PeakResident(tb testing.TB) int64 {
	tb.Helper()
	return statusValue(tb, p.Pid(), "VmHWM")
}

// CPUTime returns the CPU time that the process itself, without its children, has used
// since it started.
func (p *Process) CPUTime(tb testing.TB) time.Duration {
	tb.Helper()
	fields := statFields(p.Pid())
	require.Greater(tb, len(fields), 12, "%s has ended", p.Name)
	user, err := strconv.ParseInt(fields[11], 10, 64)
	require.NoError(tb, err)
	system, err := strconv.ParseInt(fields[12], 10, 64)
	require.NoError(tb, err)
	return time.Duration(user+system) * clockTick
}

// clockTick is the unit of CPU time in /proc (sysconf(_SC_CLK_TCK), 100 on Linux).
const clockTick = time.Second / 100

// TreeMemory returns how many bytes the process and all its descendants have in memory.
// resident counts a page in each process that maps it (the sum of VmRSS). proportional
// counts a shared page once (Pss).
func (p *Process) TreeMemory(tb testing.TB) (resident, proportional int64) {
	tb.Helper()
	for _, pid := range descendants(tb, p.Pid()) {
		resident += statusValue(tb, pid, "VmRSS")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err == nil { // it may have ended
			proportional += kilobytes(string(text), "Pss")
		}
	}
	return resident, proportional
}

// KillTree ends the process and all its descendants with SIGKILL, those too that have
// a process group of their own, and waits for the process.
func (p *Process) KillTree(tb testing.TB) {
	tb.Helper()
	for _, pid := range descendants(tb, p.Pid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one may have ended
	}
	<-p.done
}

// statusValue is 0 for a process that has ended.
func statusValue(tb testing.TB, pid int, name string) int64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return kilobytes(string(text), name)
}

// kilobytes reads "Name:   123 kB" and returns bytes.
func kilobytes(text, name string) int64 {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(line, name+":")
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err == nil {
			return n << 10
		}
	}
	return 0
}

// descendants lists the process and everything below it.
func descendants(tb testing.TB, root int) []int {
	tb.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(tb, err)
	children := map[int][]int{}
	for _, file := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(tb, err)
		fields := statFields(pid)
		if len(fields) < 2 {
			continue // it ended
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list
}

// statFields returns the fields of /proc/<pid>/stat from the state on; the parent's
// number is the second. It returns nil for a process that has ended.
func statFields(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name before the state is in parentheses and may contain anything.
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	return strings.Fields(rest)
}
