package testdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatKilledProcessesLeftIsRemoved(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	parent := t.TempDir()
	left := filepath.Join(parent, memoryPrefix+strconv.Itoa(ended.Process.Pid)+"-1")
	used := filepath.Join(parent, memoryPrefix+strconv.Itoa(os.Getpid())+"-1")
	elsewhere := filepath.Join(parent, memoryPrefix+strconv.Itoa(ended.Process.Pid)+"-2")
	other := filepath.Join(parent, "other-1")
	for _, dir := range []string{left, used, elsewhere, other} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	require.NoError(t, lock(elsewhere))
	removeLeft(parent)
	require.NoDirExists(t, left)
	require.DirExists(t, used)
	require.DirExists(t, elsewhere, "a process of another container has it")
	require.DirExists(t, other)
}
