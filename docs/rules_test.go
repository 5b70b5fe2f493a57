package docs_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules that the page shows have every member that a rule may have.
func TestExampleOfRulesHasEveryMember(t *testing.T) {
	t.Parallel()
	_, from, found := strings.Cut(read(t, "use/catalog-and-providers.md"), "\n### Rules\n")
	require.True(t, found)
	members := map[string]any{}
	for range 2 {
		_, from, found = strings.Cut(from, "```json\n")
		require.True(t, found)
		var rule map[string]any
		require.NoError(t, json.NewDecoder(strings.NewReader(from)).Decode(&rule))
		maps.Copy(members, rule)
	}
	raw, err := os.ReadFile(filepath.Join("..", "api", "openapi.json"))
	require.NoError(t, err)
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &document))
	require.ElementsMatch(t, slices.Collect(maps.Keys(document.Components.Schemas["ImportRule"].Properties)), slices.Collect(maps.Keys(members)))
}
