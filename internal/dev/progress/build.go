package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// longestLine bounds a line of the compiler, in bytes.
const longestLine = 1 << 20

// run compiles and returns when that has ended. The error of a failed build is an
// *exec.ExitError; the compiler's own words have been passed on by then.
func run(ctx context.Context, o options, s *screen) error {
	arguments, err := o.arguments(ctx)
	if err != nil {
		return err
	}
	if len(arguments) == 0 {
		return nil
	}
	b := &build{screen: s, began: time.Now(), parallel: runtime.GOMAXPROCS(0), plan: plan{}}
	lines, wait, err := start(ctx, o.command, append([]string{"build", "-v"}, arguments...)...)
	if err != nil {
		return err
	}
	ticks := time.NewTicker(s.every)
	defer ticks.Stop()
	b.follow(lines, ticks.C, func() (plan, error) { return o.plan(ctx) })
	if err := wait(); err != nil {
		s.end("")
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	s.end(b.summary())
	return nil
}

// start runs the go command and passes on the lines that it writes.
func start(ctx context.Context, command string, args ...string) (lines <-chan string, wait func() error, err error) {
	cmd := exec.CommandContext(ctx, command, args...) //nolint:gosec // the Makefile says what
	cmd.Env = compilerEnv(os.Environ())
	// It stops what it has started and removes its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout = os.Stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	read := make(chan string)
	go func() {
		defer close(read)
		scan(stderr, read)
	}()
	return read, cmd.Wait, nil
}

func scan(from io.Reader, into chan<- string) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		into <- lines.Text()
	}
	_, _ = io.Copy(io.Discard, from) // a line that is too long must not block the writer
}

// compilerEnv has the compilers collect garbage less often, unless the environment says how
// often. That takes about a sixth of their time away, for some memory of each.
func compilerEnv(env []string) []string {
	if os.Getenv("GOGC") != "" {
		return env
	}
	return append(env, "GOGC=400")
}

// build is a build under way.
type build struct {
	screen   *screen
	began    time.Time
	parallel int
	plan     plan
	// begun are the packages whose compilation has begun, in that order.
	begun []string
}

// follow shows what the go command says, at each tick, until it says nothing more. makePlan
// is called once something is to be compiled.
func (b *build) follow(lines <-chan string, ticks <-chan time.Time, makePlan func() (plan, error)) {
	plans := make(chan plan, 1)
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			if !importPath(line) {
				b.screen.pass(line)
				continue
			}
			if len(b.begun) == 0 {
				go func() {
					// Without a plan the number of packages is unknown; the build goes on.
					p, _ := makePlan()
					plans <- p
				}()
			}
			b.begun = append(b.begun, line)
		case b.plan = <-plans:
		case <-ticks:
			if len(b.begun) > 0 {
				b.screen.show(b.status(time.Since(b.began)))
			}
		}
	}
}

// importPath reports whether `go build -v` says with this line what it compiles now.
func importPath(line string) bool { return line != "" && !strings.ContainsAny(line, " :\t\"'") }

// status is one line on how far the build is after so much time.
func (b *build) status(elapsed time.Duration) string {
	last := b.begun[len(b.begun)-1]
	// A compilation says when it begins and not when it ends.
	done := b.begun[:max(0, len(b.begun)-b.parallel)]
	if len(b.plan) == 0 {
		return fmt.Sprintf("compiling: %s done; now %s", packages(len(done)), last)
	}
	share, total := b.plan.with(b.begun).share(done)
	if len(b.begun) == total {
		done = b.begun
	}
	line := fmt.Sprintf("compiling: %d of %s done", len(done), packages(total))
	if len(done) == total {
		return line + ", linking"
	}
	if left, ok := timeLeft(elapsed, share); ok {
		line += ", about " + inWords(left) + " left"
	}
	return line + "; now " + last
}

// summary says what was done; it is empty where all was there before.
func (b *build) summary() string {
	if len(b.begun) == 0 {
		return ""
	}
	return fmt.Sprintf("compiled %s in %s", packages(len(b.begun)), inWords(time.Since(b.began)))
}

func packages(n int) string {
	if n == 1 {
		return "1 package"
	}
	return fmt.Sprintf("%d packages", n)
}
