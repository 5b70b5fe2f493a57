package postgres

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ctype knows letters beyond ASCII; sorting stays by bytes.
func ctype() string { return "C.UTF-8" }

// endWithParent has the kernel end the child when we die: SIGQUIT is Postgres's
// immediate shutdown, and ends initdb too.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// listProcesses reads /proc, so that it works where ps is not installed. A
// zombie has no command line and is not listed.
func listProcesses(context.Context) ([]running, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []running
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		pid, pidErr := strconv.Atoi(filepath.Base(dir))
		if err != nil || pidErr != nil || len(line) == 0 { // it ended meanwhile
			continue
		}
		p := running{pid: pid}
		for arg := range bytes.SplitSeq(line, []byte{0}) {
			p.argv = append(p.argv, string(arg))
		}
		all = append(all, p)
	}
	return all, nil
}
