//go:build chaos

package bounds

import "testing"

// The promise for the largest documents, which docs/costs.md has measured.
func TestChaosImportsOfTheLargestDocumentsTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	for _, imports := range []int{1, 8} {
		memoryOfImports(t, 24<<20, imports, 600<<20, 100<<20)
	}
}
