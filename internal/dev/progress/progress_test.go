package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// written is what a screen got, for a test that reads while it is written.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// command is the options of a build by a shell script in the place of the go command.
func command(t *testing.T, script string) options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	// No process may begin meanwhile: it would have the file open, and nothing could run it.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	return options{command: path, packages: []string{"./cmd"}}
}

func TestStatusSaysHowFarTheBuildIs(t *testing.T) {
	t.Parallel()
	four := plan{"a": 100, "b": 200, "c": 300, "d": 400}
	for name, c := range map[string]struct {
		plan  plan
		begun string
		after time.Duration
		want  string
	}{
		"no plan yet":               {plan{}, "a b c", time.Minute, "compiling: 1 package done; now c"},
		"too early for a forecast":  {four, "a b", time.Minute, "compiling: 0 of 4 packages done; now b"},
		"some compiled":             {four, "a b c d", 3 * time.Minute, "compiling: 4 of 4 packages done, linking"},
		"two of four, a tenth done": {four, "a b c", time.Minute, "compiling: 1 of 4 packages done, about 9 min left; now c"},
		"one that is not planned":   {plan{"a": basicCost, "b": basicCost}, "x a b", time.Minute, "compiling: 3 of 3 packages done, linking"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &build{parallel: 2, plan: c.plan, begun: strings.Fields(c.begun)}
			require.Equal(t, c.want, b.status(c.after))
		})
	}
}

func TestTimesAreRounded(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Second: "10 s", 44 * time.Second: "40 s", 94 * time.Second: "90 s",
		95 * time.Second: "2 min", 150 * time.Second: "3 min", 7 * time.Minute: "7 min",
	} {
		require.Equal(t, want, inWords(d))
	}
}

func TestLogGetsLinesAndTerminalOneLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terminal bool
		want     string
	}{
		"log":      {false, "compiling: 0 of 3 packages done; now a\nx.go:1: wrong\ncompiling: 0 of 3 packages done; now b\n"},
		"terminal": {true, erase + "compiling: 0 of 3 packages done; now a" + erase + "x.go:1: wrong\n" + erase + "compiling: 0 of 3 packages done; now b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &written{}
			b := &build{screen: newScreen(out, c.terminal), parallel: 2, plan: plan{"a": 1, "b": 1, "c": 1}}
			b.begun = []string{"a"}
			lines, ticks, ended := make(chan string), make(chan time.Time), make(chan struct{})
			go func() {
				defer close(ended)
				b.follow(lines, ticks, nil)
			}()
			ticks <- time.Time{}
			lines <- "x.go:1: wrong"
			lines <- "b"
			ticks <- time.Time{}
			close(lines)
			<-ended
			require.Equal(t, c.want, out.String())
		})
	}
}

func TestLongLineFitsTheTerminal(t *testing.T) {
	t.Parallel()
	out := &written{}
	newScreen(out, true).show(strings.Repeat("é", 200))
	require.Equal(t, erase+strings.Repeat("é", columns-1)+"…", out.String())
}

func TestBuildShowsWhatIsCompiled(t *testing.T) {
	t.Parallel()
	o := command(t, `
case $1 in
list) printf 'a/b\ttrue\tfalse\ttrue\t/none\tx.go/\n' ;;
build) echo "$@" GOGC=$GOGC; echo a/b >&2 ;;
esac`)
	out := &written{}
	require.NoError(t, run(t.Context(), o, newScreen(out, false)))
	require.Contains(t, out.String(), "compiled 1 package in ")
}

func TestCompiledBuildSaysNothing(t *testing.T) {
	t.Parallel()
	o := command(t, "exit 0")
	out := &written{}
	require.NoError(t, run(t.Context(), o, newScreen(out, true)))
	require.Empty(t, out.String())
}

func TestFailedBuildKeepsWordsAndStatusOfTheCompiler(t *testing.T) {
	t.Parallel()
	o := command(t, `[ "$1" = build ] || exit 0; echo a/b >&2; echo '# a/b' >&2; echo 'b.go:7: wrong' >&2; exit 3`)
	out := &written{}
	err := run(t.Context(), o, newScreen(out, false))
	require.Equal(t, 3, exitStatus(t.Context(), err))
	require.Equal(t, "# a/b\nb.go:7: wrong\n", out.String())
}

func TestInterruptedBuildEndsTheGoCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := command(t, fmt.Sprintf(`
cd %s
[ "$1" = build ] || exit 0
trap 'touch stopped; exit 1' INT
touch started
# The shell looks for signals after each command. One that comes just before a command that waits for ever would be lost.
while :; do sleep 0.02; done`, dir))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, o, newScreen(&written{}, true)) }()
	require.Eventually(t, func() bool { return exists(dir, "started") }, time.Minute, time.Millisecond)
	cancel()
	err := <-ended
	require.Error(t, err)
	require.Equal(t, exitInterrupted, exitStatus(ctx, err))
	require.True(t, exists(dir, "stopped"), "the go command was told to stop, and was waited for")
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
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
	p, err := options{command: "go", packages: []string{"./..."}}.plan(t.Context())
	require.NoError(t, err)
	require.Contains(t, p, "example")
	require.Greater(t, p["example"], p["example/inner"], "the larger file costs more")

	out := &written{}
	tests := options{command: "go", tests: true, packages: []string{"./..."}}
	require.NoError(t, run(t.Context(), tests, newScreen(out, false)))
	require.Contains(t, out.String(), "compiled 1 package in ", "what the test imports, and no binary")
	out = &written{}
	require.NoError(t, run(t.Context(), options{command: "go", output: "bin", packages: []string{"."}}, newScreen(out, false)))
	require.Contains(t, out.String(), "compiled 1 package in ")
	require.True(t, exists(dir, "bin"))
	out = &written{}
	require.NoError(t, run(t.Context(), options{command: "go", output: "bin", packages: []string{"."}}, newScreen(out, false)))
	require.Empty(t, out.String(), "all is compiled")
}
