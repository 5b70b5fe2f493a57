// Package testdir gives tests directories for the data of servers.
package testdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// memory is where Linux keeps files in memory. Databases of tests are made and dropped by the
// hundred, each with a thousand files. ext4 takes ever longer to make a file after many were
// deleted: it passes over what was deleted in the last minutes, one by one. On two cores, tests
// that mostly make databases took a third of the CPU in memory.
const memory = "/dev/shm"

// memoryNeeded is the free space, in bytes, that makes tests use it. Containers often have 64 MB.
const memoryNeeded = 4 << 30

// memoryPrefix begins the names of directories in memory; the id of the process that made it follows.
const memoryPrefix = "agentruntime-test-"

// New makes a directory for the data of servers, in memory where there is room, and removes it when
// tb ends.
func New(tb testing.TB) string {
	tb.Helper()
	dir, err := Make()
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Make is New for a caller that removes the directory itself.
func Make() (string, error) {
	dir, err := os.MkdirTemp(parent(), fmt.Sprintf("%s%d-*", memoryPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("testdir: %w", err)
	}
	// Root's servers run as another account, which has to come through to what is its own. It would
	// otherwise keep its data on disk.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // secrets in it are files of mode 0600
		return "", fmt.Errorf("testdir: %w", err)
	}
	return dir, lock(dir)
}

// lock locks a directory until this process ends. Its id says nothing in another container that has the
// same memory.
func lock(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_SH)
	}
	if err != nil {
		return fmt.Errorf("testdir: lock %s: %w", dir, err)
	}
	return nil
}

// isLocked reports whether a process has locked the directory.
func isLocked(dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true // it is not ours to remove
	}
	defer unix.Close(fd)
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil
}

// parent is memory, or empty for the system's directory of temporary files.
//
//nolint:gochecknoglobals // looked at once
var parent = sync.OnceValue(func() string {
	var s unix.Statfs_t
	if err := unix.Statfs(memory, &s); err != nil || uint64(s.Bavail)*uint64(s.Bsize) < memoryNeeded { //nolint:gosec,unconvert,nolintlint // the types differ among systems
		return ""
	}
	removeLeft(memory)
	return memory
})

// removeLeft removes what processes have left that were killed.
func removeLeft(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, memoryPrefix+"*")) // the only error is a bad pattern
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), memoryPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) && !isLocked(dir) {
			_ = os.RemoveAll(dir)
		}
	}
}
