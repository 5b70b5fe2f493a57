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

// The definitions of testdata/maps are valid, without warnings, for Read, for Check and for the
// JSON Schema of the format. Together they have all types of steps.
func TestDefinitionsOfTestdataAreValid(t *testing.T) {
	t.Parallel()
	s := formatSchema(t)
	files, err := filepath.Glob("../../../testdata/maps/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 60)
	used := map[mapdef.Type]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var tc struct {
			Map     json.RawMessage            `json:"map"`
			MapType mapdef.MapType             `json:"map_type"`
			Maps    map[string]json.RawMessage `json:"maps"`
		}
		require.NoError(t, json.Unmarshal(raw, &tc), name)
		tc.Maps = put(tc.Maps, tc.Map)
		for id, source := range tc.Maps {
			d, faults := mapdef.Read(source)
			wrong, warnings := d.Check()
			require.Empty(t, append(append(faults, wrong...), warnings...), "%s %s", name, id)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
			require.NoError(t, err)
			require.NoError(t, s.Validate(value), "%s %s", name, id)
			mapdef.Walk(d.Steps, func(s *mapdef.Step) { used[s.Do.Type()] = true })
			if id == "" {
				require.Equal(t, tc.MapType == mapdef.Cognitive, d.HasModel(), name)
			}
		}
	}
	for _, typ := range mapdef.Types() {
		require.True(t, used[typ], "no definition has a step of type %s", typ)
	}
}

func put(maps map[string]json.RawMessage, source json.RawMessage) map[string]json.RawMessage {
	if maps == nil {
		maps = map[string]json.RawMessage{}
	}
	maps[""] = source
	return maps
}
