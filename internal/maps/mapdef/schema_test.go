package mapdef_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

func formatSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(mapdef.Schema("https://example.com/map.json")))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("https://example.com/map.json", doc))
	s, err := c.Compile("https://example.com/map.json")
	require.NoError(t, err)
	return s
}

// semantic are the rules that no JSON Schema can know.
func semantic() map[string]bool {
	return map[string]bool{
		"expression": true, "reference": true, "unique": true, "unknown_code": true, "retry": true, "reserved": true,
		"conflict": true, "placement": true, "nesting": true, "schema": true, "complexity": true, "uuid": true,
	}
}

// What Read refuses for its form, the schema refuses too; what it takes, the schema takes.
func TestSchemaOfTheFormatAgreesWithRead(t *testing.T) {
	t.Parallel()
	s := formatSchema(t)
	files, err := filepath.Glob("testdata/invalid/*.json")
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var tc invalid
		require.NoError(t, json.Unmarshal(raw, &tc))
		if tc.Map == nil {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(tc.Map))
		require.NoError(t, err)
		form := false
		for _, f := range tc.Faults {
			// The other types of values and lengths of whole definitions are Check's.
			form = form || !semantic()[f.Rule]
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if err := s.Validate(value); !form {
			require.NoError(t, err, name)
		} else if !onlyCheckKnows()[name] {
			require.Error(t, err, name)
		}
	}
}

// onlyCheckKnows are the cases of which each fault of form is about a value with expressions.
func onlyCheckKnows() map[string]bool {
	return map[string]bool{"arguments_not_an_object": true, "times": true, "many_steps": true, "on_error": false}
}

func TestSchemaOfTheFormatHasAllTypes(t *testing.T) {
	t.Parallel()
	raw := mapdef.Schema("x")
	for _, typ := range mapdef.Types() {
		require.Contains(t, string(raw), `"step_`+string(typ)+`"`)
	}
	require.True(t, json.Valid(raw))
	require.Equal(t, string(raw), string(mapdef.Schema("x")))
}
