package jqchild

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// self returns this very program, also where the file has been replaced since it started.
func self() (string, error) { return "/proc/self/exe", nil }

// apart keeps the signals of a terminal from the children: their parent ends them.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// spareFiles is how many files a child may have open. The runtime of Go has some by now.
const spareFiles = 16

// confine bounds the memory, the files and the dumps of this process. Go reserves address space
// at its start that it never touches, so the bound counts from what there is.
func confine() error {
	size, err := addressSpace()
	if err != nil {
		return fmt.Errorf("bound the memory of a child: %w", err)
	}
	for _, limit := range []struct {
		what int
		most uint64
	}{
		{syscall.RLIMIT_AS, size + Memory}, {syscall.RLIMIT_NOFILE, spareFiles}, {syscall.RLIMIT_FSIZE, 0}, {syscall.RLIMIT_CORE, 0},
	} {
		if err := syscall.Setrlimit(limit.what, &syscall.Rlimit{Cur: limit.most, Max: limit.most}); err != nil {
			return fmt.Errorf("bound the resources of a child: %w", err)
		}
	}
	return nil
}

// addressSpace returns how many bytes of address space this process has.
func addressSpace() (uint64, error) {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, _, _ := bytes.Cut(raw, []byte(" "))
	n, err := strconv.ParseUint(string(pages), 10, 64)
	return n * uint64(os.Getpagesize()), err // a page has a few thousand bytes
}

// ticks is how many a second has in /proc, on every architecture that Go supports.
const ticks = 100

// used returns how long the processor has worked for a process, and whether that is known.
func used(pid int) (time.Duration, bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name in the second field can contain anything: count from its end. utime and stime
	// are fields 14 and 15 (proc_pid_stat(5)).
	_, rest, found := bytes.Cut(raw[max(bytes.LastIndexByte(raw, ')'), 0):], []byte(") "))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err1 == nil && err2 == nil
}

// niceness has the processor serve nice children after others: all children together count about as much
// as one other process that is busy. A short expression hardly notices.
const niceness = 5

// yield has the processor serve this process before a child. It is in vain where the system does not allow
// that. The child then only takes more from the others.
func yield(pid int) {
	if raised, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, pid, 20-raised+niceness) // Linux counts from 20 down here
	}
}
