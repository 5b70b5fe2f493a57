package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
)

func TestTextLogInAFileHasNoColors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	require.NoError(t, err)
	log, err := app.Log(config.Config{LogLevel: "info", LogFormat: "text"}, f)
	require.NoError(t, err)
	log.Info("started", "port", 8080)
	require.NoError(t, f.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "INF started port=8080\n")
}
