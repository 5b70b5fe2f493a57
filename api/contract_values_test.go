package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/provider/argdiff"
)

// propertyOf returns what the contract says about a member of a schema.
func propertyOf(t *testing.T, schema, name, of string) any {
	t.Helper()
	return at(t, contract(t), "components", "schemas", schema, "properties", name, of)
}

func TestDocumentNamesTheMostMatchers(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"PolicyRequest", "PolicyPatchRequest", "PolicyCandidate"} {
		require.Equal(t, json.Number(strconv.Itoa(governance.MaxMatchers)), propertyOf(t, schema, "verbMatchers", "maxItems"), schema)
	}
}

// A client can tell the values apart without another page.
func TestDocumentListsWhatAnImportChanges(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"schema": true}
	for _, k := range []argdiff.Kind{argdiff.Removed, argdiff.Retyped, argdiff.Required, argdiff.Added, argdiff.Optional} {
		want[string(k)] = true
	}
	for _, file := range []string{"changes.go", "notes.go", "security.go"} {
		source, err := os.ReadFile(filepath.Join("..", "internal", "provider", "catalog", file))
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`c\.add\("([a-z_]+)"`).FindAllSubmatch(source, -1) {
			want[string(found[1])] = true
		}
	}
	listed, _ := propertyOf(t, "ImportChange", "what", "enum").([]any)
	got := map[string]bool{}
	for _, one := range listed {
		text, _ := one.(string)
		got[text] = true
	}
	require.Equal(t, want, got)
}
