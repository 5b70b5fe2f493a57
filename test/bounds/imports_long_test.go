//go:build chaos

package bounds

import (
	"fmt"
	"testing"
)

// The promise for the largest documents in each form, which docs/reference/costs.md has measured.
func TestChaosImportsOfTheLargestDocumentsTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	const most, mostYAML = 24 << 20, 5<<20 - 10_000
	all := []upload{
		jsonUpload(t, most), archiveUpload(t, most), addressUpload(t, most), oneFileUpload(t, most),
		yamlUpload(t, mostYAML, mostYAML*9/10), aliasesUpload(t, most), swaggerUpload(t, most),
	}
	// One after the other: each is to have the machine.
	check := func(name string, imports []upload) {
		t.Run(name, func(t *testing.T) { memoryOfImports(t, imports, 600<<20, 100<<20) })
	}
	for _, u := range all {
		for _, n := range []int{1, 8} {
			check(fmt.Sprintf("%s %d", u.format, n), repeated(n, u))
		}
	}
	check("all forms twice", append(all, all...))
}
