package app_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
)

func TestJSONLogWritesDurationsWithUnits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := app.Log(config.Config{LogLevel: "info", LogFormat: "json"}, &out)
	require.NoError(t, err)
	log.Info("failed", "again_in", 1500*time.Millisecond, slog.Group("call", "took", 250*time.Microsecond))
	require.Contains(t, out.String(), `"again_in":"1.5s","call":{"took":"250µs"}`)
}

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
