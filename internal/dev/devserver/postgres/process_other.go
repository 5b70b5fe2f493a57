//go:build !linux

package postgres

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func ctype() string { return "C" }

// endWithParent can do nothing here: the next start ends an orphan.
func endWithParent(*syscall.SysProcAttr) {}

// listProcesses asks ps. Arguments with spaces fall apart, so a data directory
// with a space in its path hides its orphan from us.
func listProcesses(ctx context.Context) ([]running, error) {
	out, err := exec.CommandContext(ctx, "ps", "-axo", "pid=,stat=,command=").Output()
	if err != nil {
		return nil, err
	}
	var all []running
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[1], "Z") {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			continue
		}
		argv := fields[2:]
		if argv[0] == "postgres:" { // a backend's title is one argument
			argv = []string{strings.Join(argv, " ")}
		}
		all = append(all, running{pid: pid, argv: argv})
	}
	return all, nil
}
