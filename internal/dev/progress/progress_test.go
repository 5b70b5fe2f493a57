package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// command is a shell script in the place of the go command.
func command(t *testing.T, script string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "go")
	// No process may begin meanwhile: it would have the file open, and nothing could run it.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	return path
}

func TestFailedBuildKeepsWordsAndStatusOfTheCompiler(t *testing.T) {
	t.Setenv("GO", command(t, `echo a/b >&2; echo '# a/b' >&2; echo 'b.go:7: wrong' >&2; exit 3`))
	var out bytes.Buffer
	err := run(t.Context(), []string{"./cmd"}, &out)
	failed := &exec.ExitError{}
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 3, failed.ExitCode())
	require.Contains(t, out.String(), "# a/b\nb.go:7: wrong\n")
}

func TestInterruptedBuildEndsTheGoCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GO", command(t, fmt.Sprintf(`
cd %s
trap 'touch stopped; exit 1' INT
touch started
# The shell looks for signals after each command. One that comes just before a command that waits for ever would be lost.
while :; do sleep 0.02; done`, dir)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"."}, io.Discard) }()
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	require.Eventually(t, func() bool { return exists("started") }, time.Minute, time.Millisecond)
	cancel()
	require.Error(t, <-ended)
	require.True(t, exists("stopped"), "the go command was told to stop, and was waited for")
}

// What the go command writes is not a contract; this is the one that is installed.
func TestGoCommandWritesWhatIsReadHere(t *testing.T) {
	dir := t.TempDir()
	unique := time.Now().UnixNano()
	for name, text := range map[string]string{
		"go.mod":            "module example\n\ngo 1.26\n",
		"main.go":           "package main\n\nimport \"example/inner\"\n\nfunc main() { println(inner.X) }\n",
		"inner/x.go":        fmt.Sprintf("package inner\n\nconst X = %d\n", unique),
		"only/only_test.go": "package only\n\nimport \"testing\"\n\nfunc TestX(*testing.T) {}\n",
		"x_test.go":         "package main\n\nimport (\n\t\"testing\"\n\n\t\"example/inner\"\n)\n\nfunc TestX(*testing.T) { _ = inner.X }\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Chdir(dir)
	progress := func(args ...string) string {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), args, &out))
		return out.String()
	}
	require.Contains(t, progress("-tests", "./..."), "linked: 1,", "what the test imports, and no binary")
	require.Contains(t, progress("-o", "bin", "."), "linked: 1,")
	_, err := os.Stat("bin")
	require.NoError(t, err)
	require.Empty(t, progress("-o", "bin", "."), "all is compiled")
}
