// Command progress compiles packages as `go build` does, and counts what is compiled. The Makefile runs
// it before it starts or tests what links the embedded Temporal server: those are many packages and
// minutes of silence. It imports small packages of the standard library only, so that it is compiled in
// seconds.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	var failed *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		os.Exit(130) //nolint:gocritic // 128 and the number of SIGINT; nothing is left to stop
	case errors.As(err, &failed):
		os.Exit(max(1, failed.ExitCode())) // the go command has said why
	default:
		fmt.Fprintln(os.Stderr, "progress:", err)
		os.Exit(2)
	}
}

// run compiles what the arguments of `go build` name. After -tests, which comes first, it compiles what
// the tests of packages import, and links nothing.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "-tests" {
		// A package that only has tests has nothing to compile without them, and a command would be linked.
		const imported = `{{if not (or .Standard .ForTest (eq .Name "main"))}}{{if or .GoFiles .CgoFiles}}{{.ImportPath}}{{end}}{{end}}`
		list, err := goCommand(ctx, append([]string{"list", "-deps", "-test", "-f", imported}, args[1:]...)...).Output()
		packages := strings.Fields(string(list))
		if err != nil || len(packages) == 0 {
			return err
		}
		flags := slices.DeleteFunc(args[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") })
		args = append(flags, packages...)
	}
	cmd := goCommand(ctx, append([]string{"build", "-v"}, args...)...)
	cmd.Stderr = nil // it is read here
	words, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	began, n := time.Now(), count(words, out)
	if err := cmd.Wait(); err != nil {
		return err
	}
	if n > 0 {
		fmt.Fprintf(out, "packages compiled and linked: %d, in %s\n", n, time.Since(began).Round(time.Second))
	}
	return nil
}

// goCommand is a command of the go program that the Makefile names. The compilers collect garbage less
// often, unless the environment says how often: that takes about a sixth of their time away.
func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	name := "go"
	if said := os.Getenv("GO"); said != "" {
		name = said
	}
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the Makefile says what
	cmd.Stderr = os.Stderr
	cmd.Env = append([]string{"GOGC=400"}, os.Environ()...) // of two the last one counts
	// It stops what it has started and removes its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// count passes on what the go command says, and returns how many packages it has compiled: -v names each
// when its compilation begins. After the last one it links, which -v does not say.
func count(from io.Reader, out io.Writer) (n int) {
	lines, ticks, last := make(chan string), time.NewTicker(10*time.Second), ""
	defer ticks.Stop()
	go func() {
		defer close(lines)
		for read := bufio.NewReader(from); ; {
			line, err := read.ReadString('\n')
			if err != nil {
				return
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	for {
		select {
		case line, more := <-lines:
			switch {
			case !more:
				return n
			case line == "" || strings.ContainsAny(line, " :\t\"'"):
				fmt.Fprintln(out, line) // words of a compiler
			default:
				n, last = n+1, line
			}
		case <-ticks.C:
			if n > 0 {
				fmt.Fprintf(out, "compiling package %d, %s; after the last one comes the linking\n", n, last)
			}
		}
	}
}
