//go:build conformance

package connectors_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/connectors"
)

// TestGitHub imports GitHub's whole document, which npm brings.
func TestGitHub(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "test", "node", "node_modules", "@octokit", "openapi", "generated", "api.github.com.json")
	raw, err := os.ReadFile(path)
	require.NoError(t, err, "GitHub's document is missing: run `npm ci` in test/node")
	im, err := connectors.Import(t.Context(), connectors.ImportInput{Slug: "github", Document: raw})
	require.NoError(t, err)
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
