//go:build conformance

package openapi_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/openapi"
)

// TestGitHub imports GitHub's whole document, which npm brings.
func TestConformanceGitHub(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "test", "node", "node_modules", "@octokit", "openapi", "generated", "api.github.com.json")
	raw, err := os.ReadFile(path)
	require.NoError(t, err, "GitHub's document is missing: run `npm ci` in test/node")
	started := time.Now()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "github", Document: raw})
	require.NoError(t, err)
	require.Less(t, time.Since(started), 20*time.Second)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require.Less(t, memory.Sys, uint64(600<<20), "what the process has taken from the system")
	require.Len(t, im.Verbs, 1223)
	require.Empty(t, im.Rejected)
	require.Len(t, im.Degraded, 1)
	require.Equal(t, []string{"https://api.github.com", "https://uploads.github.com"}, im.Servers)
	names := map[string]bool{}
	for _, v := range im.Verbs {
		names[v.Name] = true
	}
	require.Len(t, names, 1223)
}
