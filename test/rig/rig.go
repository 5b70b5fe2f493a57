// Package rig runs the real service as processes and drives it from outside, over HTTP.
// All suites in test/ use it. It builds what it runs and links none of it, so that no
// test binary but devserver's own contains the Temporal server.
package rig

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Root returns the project's directory.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Build names a way to compile a binary.
type Build struct {
	// Command is a folder of cmd/.
	Command string
	Tags    string
	Race    bool
}

// builds are shared by the tests of one binary.
var builds sync.Map

// Binary compiles, once per test binary, and returns the path. The Go build cache
// makes a second time cheap.
func Binary(tb testing.TB, b Build) string {
	tb.Helper()
	once, _ := builds.LoadOrStore(b, sync.OnceValues(func() (string, error) { return b.compile() }))
	path, err := once.(func() (string, error))()
	require.NoError(tb, err)
	return path
}

func (b Build) compile() (string, error) {
	name := b.Command
	args := []string{"build"}
	if b.Tags != "" {
		args = append(args, "-tags", b.Tags)
		name += "-" + strings.ReplaceAll(b.Tags, ",", "-")
	}
	if b.Race {
		args = append(args, "-race")
		name += "-race"
	}
	out := filepath.Join(Root(), "bin", "rig", name)
	args = append(args, "-o", out, "./cmd/"+b.Command)
	cmd := exec.Command("go", args...)
	cmd.Dir = Root()
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return out, nil
}

// Ready is what the parts of the service say when they are ready.
type Ready struct {
	APIURL          string `json:"api_url"`
	TemporalAddress string `json:"temporal_address"`
	TemporalUIURL   string `json:"temporal_ui_url"`
	DatabaseURL     string `json:"database_url"`
	AppDatabaseURL  string `json:"app_database_url"`
	VisibilityURL   string `json:"visibility_url"`
	SandboxURL      string `json:"sandbox_url"`
	TenantID        string `json:"tenant_id"`
	Email           string `json:"email"`
	Password        string `json:"password"`
	RuntimeKey      string `json:"runtime_key"`
	AgentKey        string `json:"agent_key"`
	MapID           string `json:"map_id"`
	AgentID         string `json:"agent_id"`
}

// Process is a running part.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
}

// lockedBuffer gathers a process's output.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written so far.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Start runs a binary in a process group of its own; env is added to this process's.
func Start(tb testing.TB, name, binary string, env []string, args ...string) *Process {
	tb.Helper()
	p := &Process{Name: name, cmd: exec.Command(binary, args...), log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 2 * time.Second
	require.NoError(tb, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Stop()
		if tb.Failed() {
			tb.Logf("--- log of %s (end)\n%s", name, tail(p.Log(), 6000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Log returns the output so far.
func (p *Process) Log() string { return p.log.String() }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the process and its children with SIGKILL and waits.
func (p *Process) Kill() {
	p.signal(-p.Pid(), syscall.SIGKILL)
	<-p.done
}

// signal does nothing once the process has ended: its number may be another's.
func (p *Process) signal(pid int, sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(pid, sig)
	}
}

// Terminate asks the process to end with SIGTERM and waits until it has, at most stopWait.
// It reports whether the process ended by itself.
func (p *Process) Terminate() bool {
	p.signal(p.Pid(), syscall.SIGTERM)
	select {
	case <-p.done:
		return true
	case <-time.After(stopWait):
		p.Kill()
		return false
	}
}

// stopWait is how long an orderly end may take.
const stopWait = 20 * time.Second

// Stop ends the process in order, by force where it does not listen.
func (p *Process) Stop() {
	p.signal(p.Pid(), syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(stopWait):
		p.Kill()
	}
}

// readyLimit is how long a part may take to start on a busy machine.
const readyLimit = 90 * time.Second

// await reads the ready file of a process.
func (p *Process) await(tb testing.TB, file string, into *Ready) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for {
		if text, err := os.ReadFile(file); err == nil {
			require.NoError(tb, json.Unmarshal(text, into))
			// The next start of the part writes its own.
			require.NoError(tb, os.Remove(file))
			return
		}
		select {
		case <-p.done:
			require.FailNow(tb, p.Name+" ended before it was ready", p.Log())
		case <-ctx.Done():
			require.FailNow(tb, p.Name+" was not ready in time", p.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// FreeAddress returns a loopback address with a port that was free a moment ago. It
// lies below those that the system gives to outgoing connections, so that none takes
// it while the part that listens there is being restarted. No other test of any process on this
// machine gets it, as long as this process lives.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	const lowest, above, tries = 20000, 32768, 100
	for range tries {
		port := strconv.Itoa(lowest + mathrand.IntN(above-lowest))
		if !reserve(tb, port) {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", port)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	require.FailNow(tb, "no free port")
	return ""
}

// reserved are the lock files of the ports that this process has. A file that is collected as
// garbage is closed, and its lock ends.
var reserved sync.Map

// reserve takes the port for this process, and reports whether it could.
func reserve(tb testing.TB, port string) bool {
	tb.Helper()
	dir := filepath.Join(os.TempDir(), "agentruntime-rig-ports")
	require.NoError(tb, os.MkdirAll(dir, 0o700))
	f, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(tb, err)
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return false
	}
	reserved.Store(port, f)
	return true
}

// secret is a random key in base64.
func secret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// Until polls what until it says true, or fails the test after limit.
func Until(tb testing.TB, limit time.Duration, why string, what func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for !what() {
		select {
		case <-ctx.Done():
			require.FailNow(tb, "not in time: "+why)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
