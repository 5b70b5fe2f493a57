package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsAreMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := LoadOrCreateSecrets(dir)
	require.NoError(t, err)
	again, err := LoadOrCreateSecrets(dir)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, first.KEK, 32)
	require.NotEqual(t, first.KEK, first.Pepper)
	require.Equal(t, "[redacted]", fmt.Sprint(first))
	for _, name := range []string{"kek", "pepper", "jwt", "codec"} {
		info, err := os.Stat(filepath.Join(dir, "keys", name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "keys", "kek"), []byte("damaged"), 0o600))
	_, err = LoadOrCreateSecrets(dir)
	require.ErrorContains(t, err, "restore it")
}
