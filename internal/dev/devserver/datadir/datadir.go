// Package datadir guards the directory in which a development server keeps its data. One
// process at a time uses it, and secrets in it are made once.
package datadir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse says that another live process has the directory.
var ErrInUse = errors.New("the data directory is in use")

// A process that is being killed gives its lock back within milliseconds; a live
// one does not. One second tells them apart.
const (
	lockWait = time.Second
	lockPoll = 20 * time.Millisecond
)

// Lock is the exclusive use of a directory. The kernel ends it with the process,
// however that dies.
type Lock struct{ file *os.File }

// Acquire makes dir if it is missing and takes DIR/lock. While another process
// has it, the error is ErrInUse and names that process.
func Acquire(ctx context.Context, dir string) (*Lock, error) {
	// The dropped user of Postgres has to pass through, hence not 0700.
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // secrets below it are 0600 each
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := flock(ctx, file); err != nil {
		defer file.Close() // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		return nil, fmt.Errorf("%w: %s belongs to %s; stop that process (Ctrl-C, or kill it), or start with another --data directory",
			ErrInUse, dir, holder(file))
	}
	if err := writeHolder(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file: file}, nil
}

// Release gives the directory back.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release %s: %w", l.file.Name(), err)
	}
	return nil
}

func flock(ctx context.Context, file *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if _, err := fmt.Fprintf(file, "%d\n", os.Getpid()); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

func holder(file *os.File) string {
	text, err := os.ReadFile(file.Name())
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return "process " + pid
	}
	return "another process"
}

// Secret returns the random bytes kept as hex in the file, made at the first
// call with mode 0600. Processes that race for it get the same bytes.
func Secret(path string, size int) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createSecret(path, size); err != nil {
			return nil, fmt.Errorf("make secret %s: %w", path, err)
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != size {
		return nil, fmt.Errorf("secret %s is not %d bytes in hex: restore it, or delete the data directory to start again", path, size)
	}
	return secret, nil
}

// createSecret writes a file beside path and links it there, so that nobody
// reads half a secret and the first of several writers wins.
func createSecret(path string, size int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the file itself is 0600
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // a second name of the same bytes
	secret := make([]byte, size)
	rand.Read(secret) // never fails since Go 1.24
	_, err = tmp.WriteString(hex.EncodeToString(secret) + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
