package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

var errExited = errors.New("the server exited")

// passingError is a failed start that may work a moment later.
type passingError struct{ reason string }

func (e *passingError) Error() string { return e.reason }

// process is a child and the goroutine that waits for it.
type process struct {
	child *os.Process
	done  chan struct{}
}

// startProcess starts cmd so that it ends with us, even if we are killed. On
// Linux that tie is to the thread that started the child, not to the process:
// the goroutine keeps its thread until the child has ended.
func startProcess(cmd *exec.Cmd) (*process, error) {
	endWithParent(cmd.SysProcAttr)
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(p.done)
		err := cmd.Start()
		p.child = cmd.Process
		started <- err
		if err == nil {
			cmd.Wait() //nolint:errcheck // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// runProcess runs cmd to its end and returns what it wrote.
func runProcess(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.stop(0, syscall.SIGKILL)
		return nil, ctx.Err()
	}
	if !cmd.ProcessState.Success() {
		return out.Bytes(), errors.New(cmd.ProcessState.String())
	}
	return out.Bytes(), nil
}

// stop sends the signal and reports whether the child ended within patience.
// SIGKILL and SIGQUIT are the last word: a child that outlives them is killed.
func (p *process) stop(patience time.Duration, sig syscall.Signal) bool {
	p.child.Signal(sig) //nolint:errcheck // it has ended already
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
	}
	if sig == syscall.SIGINT {
		return false
	}
	p.child.Kill() //nolint:errcheck // it has ended already
	<-p.done
	return true
}

// explain adds to a failed start what the server wrote in its log, and tells the
// failures that pass from those that stay.
func explain(err error, logPath string, offset int64) error {
	if !errors.Is(err, errExited) {
		return err
	}
	text := readFrom(logPath, offset)
	reason := lastFatal(text)
	for _, passing := range []string{
		"Address already in use", "could not bind",
		"pre-existing shared memory block", // backends of a killed server, about to end
		"lock file \"postmaster.pid\" already exists",
	} {
		if strings.Contains(text, passing) {
			return &passingError{reason: reason}
		}
	}
	return fmt.Errorf("%w: %s (more in %s)", err, reason, logPath)
}

func readFrom(path string, offset int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close() // only read
	text, err := io.ReadAll(io.NewSectionReader(file, offset, maxLogBytes))
	if err != nil {
		return ""
	}
	return string(text)
}

func lastFatal(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		if _, reason, ok := strings.Cut(line, "FATAL:"); ok {
			return strings.TrimSpace(reason)
		}
	}
	return lines[len(lines)-1]
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
