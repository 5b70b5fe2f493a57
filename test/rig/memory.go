package rig

import (
	"bytes"
	"fmt"
	"net"
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

// Resident returns the memory in bytes that the process itself has resident now (VmRSS), 0
// once it has ended.
func (p *Process) Resident(tb testing.TB) int64 {
	tb.Helper()
	return statusValue(tb, p.Pid(), "VmRSS")
}

// Connections returns how many TCP connections over IPv4 the process has to the address,
// host:port of this machine; 0 once it has ended.
func (p *Process) Connections(tb testing.TB, address string) int {
	tb.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(tb, err)
	number, err := strconv.Atoi(port)
	require.NoError(tb, err)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Pid()))
	require.NoError(tb, err)
	own := map[string]bool{}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil { // it may be closed by now
			own[target] = true
		}
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", p.Pid()))
	if err != nil {
		return 0
	}
	// A line is "n: local:port remote:port state … inode", the tenth field, in hexadecimal.
	const established = "01"
	n := 0
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 9 && f[3] == established && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", number)) && own["socket:["+f[9]+"]"] {
			n++
		}
	}
	return n
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
