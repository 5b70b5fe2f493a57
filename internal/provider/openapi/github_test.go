//go:build conformance

package openapi_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/openapi"
)

// GitHub's whole document, which npm brings, in work that grows with its size. What the
// import allocates stands for its time and bounds its memory, and does not depend on how
// busy the machine is: 13 bytes for each byte of the document, 26 with the race detector.
//
//nolint:paralleltest // what is allocated is counted for the whole process
func TestConformanceGitHubDocumentIsImported(t *testing.T) {
	path := filepath.Join("..", "..", "..", "test", "node", "node_modules", "@octokit", "openapi", "generated", "api.github.com.json")
	raw, err := os.ReadFile(path)
	require.NoError(t, err, "GitHub's document is missing: run `npm ci` in test/node")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "github", Document: raw})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes of document, %d bytes allocated", len(raw), after.TotalAlloc-before.TotalAlloc)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50*len(raw)))

	require.Len(t, im.Verbs, 1223)
	require.Empty(t, im.Rejected)
	degraded := map[string]string{}
	for _, d := range im.Degraded {
		degraded[d.Operation] = d.Reason
	}
	require.Equal(t, map[string]string{
		"POST /markdown": "its answers in text are results {text, media_type}", "POST /markdown/raw": "its answers in text are results {text, media_type}",
		"GET /zen": "its answers in text are results {text, media_type}", "GET /octocat": "its answers are files: a result names the file, whose bytes are read apart",
		"POST /repos/{owner}/{repo}/releases/{release_id}/assets": "the body is given as base64",
	}, degraded)
	require.Equal(t, []string{"https://api.github.com", "https://uploads.github.com"}, im.Servers)
	names := map[string]bool{}
	for _, v := range im.Verbs {
		names[v.Name] = true
	}
	require.Len(t, names, 1223)
}

func TestConformanceGitHubsVerbsAreToolsOfEveryMaker(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "node", "node_modules", "@octokit", "openapi", "generated", "api.github.com.json"))
	require.NoError(t, err)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "github", Document: raw})
	require.NoError(t, err)
	require.Zero(t, requireTools(t, "github", im.Verbs))
}
