package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// running is a live process (a zombie is none) as the system lists it.
type running struct {
	pid  int
	argv []string
}

// remainsPoll and remainsWait bound the wait for one signal to have its effect.
const (
	remainsPoll = 20 * time.Millisecond
	remainsWait = 5 * time.Second
)

// clearRemains ends what is left of an earlier server on this cluster. We have
// the lock, so a server that still runs is an orphan: its parent is dead. The
// server's own lock file is no help, since a zombie nobody waits for keeps it
// valid in the eyes of Postgres.
func (c cluster) clearRemains(ctx context.Context, log *slog.Logger) error {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		left, err := c.processes(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return c.removeLockFile(ctx)
		}
		log.WarnContext(ctx, "ending a Postgres that a killed process left running",
			slog.Int("pid", left[0].pid), slog.Int("processes", len(left)), slog.String("signal", sig.String()))
		for _, p := range left {
			if sig != syscall.SIGKILL && !c.isPostmaster(p) {
				continue // the postmaster ends its children in order
			}
			if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end the orphaned server, process %d: %w", p.pid, err)
			}
		}
		if err := c.awaitGone(ctx); err != nil {
			return err
		}
	}
	left, err := c.processes(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("process %d of an earlier server does not end: kill it by hand", left[0].pid)
	}
	return c.removeLockFile(ctx)
}

// awaitGone returns when no process of the cluster is left, or after remainsWait.
func (c cluster) awaitGone(ctx context.Context) error {
	deadline := time.Now().Add(remainsWait)
	for time.Now().Before(deadline) {
		left, err := c.processes(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := wait(ctx, remainsPoll); err != nil {
			return err
		}
	}
	return nil
}

// processes returns the live processes of this cluster. They are known by their
// command line, which anyone may read; their working directory is not shown to
// a root without CAP_SYS_PTRACE, as in most containers.
func (c cluster) processes(ctx context.Context) ([]running, error) {
	all, err := listProcesses(ctx)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return slices.DeleteFunc(all, func(p running) bool {
		title := strings.HasPrefix(p.argv[0], "postgres: "+c.name+":") // a backend renames itself
		return !title && !c.isPostmaster(p)
	}), nil
}

func (c cluster) isPostmaster(p running) bool {
	i := slices.Index(p.argv, "-D")
	return filepath.Base(p.argv[0]) == "postgres" && i > 0 && i+1 < len(p.argv) && p.argv[i+1] == c.data()
}

// removeLockFile removes postmaster.pid once its server is known to be gone. A
// Postgres started by hand on the same directory is none of ours and is left alone.
func (c cluster) removeLockFile(ctx context.Context) error {
	path := filepath.Join(c.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read postmaster.pid: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	all, listErr := listProcesses(ctx)
	if listErr != nil {
		return fmt.Errorf("list processes: %w", listErr)
	}
	foreign := func(p running) bool { return p.pid == pid && filepath.Base(p.argv[0]) == "postgres" }
	if err == nil && slices.ContainsFunc(all, foreign) {
		return fmt.Errorf("a Postgres that was not started by this program runs on %s: stop process %d", c.data(), pid)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove postmaster.pid: %w", err)
	}
	return nil
}
