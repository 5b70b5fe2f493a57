// Command progress compiles packages as `go build` does, and shows what is compiled and
// how long it will still take. The Makefile runs it before it starts or tests what links
// the embedded Temporal server: those are many packages and minutes of silence. It
// imports nothing but small packages of the standard library, so that it is itself
// compiled in seconds. It never starts what it compiled.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Exit statuses that shells use.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 and the number of SIGINT
)

// noteEvery is how often a log without a terminal gets a line.
const noteEvery = 15 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := readOptions(os.Args[1:])
	if err != nil {
		os.Exit(exitUsage)
	}
	err = run(ctx, o, newScreen(os.Stderr, terminal(os.Stderr)))
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) { // the go command has said why
		fmt.Fprintln(os.Stderr, "progress:", err)
	}
	os.Exit(exitStatus(ctx, err))
}

// options are what to compile.
type options struct {
	// command is the go command.
	command string
	// tests: compile what the tests of the packages import, and link nothing.
	tests bool
	// build are flags that `go build` and `go list` both take.
	build []string
	// output is the file for the binary; empty for none.
	output   string
	packages []string
}

func readOptions(args []string) (options, error) {
	o := options{command: "go"}
	if name := os.Getenv("GO"); name != "" { // as in the Makefile
		o.command = name
	}
	flags := flag.NewFlagSet("progress", flag.ContinueOnError)
	flags.BoolVar(&o.tests, "tests", false, "compile what the tests of the packages import, and link nothing")
	flags.StringVar(&o.output, "o", "", "file for the binary")
	race := flags.Bool("race", false, "compile for the race detector")
	tags := flags.String("tags", "", "build tags, separated by commas")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *race {
		o.build = append(o.build, "-race")
	}
	if *tags != "" {
		o.build = append(o.build, "-tags", *tags)
	}
	o.packages = flags.Args()
	return o, nil
}

// terminal reports whether lines on f can be written again.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// exitStatus is the status of `go build` where that failed.
func exitStatus(ctx context.Context, err error) int {
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &failed) && failed.ExitCode() > 0:
		return failed.ExitCode()
	}
	return exitFailed
}
