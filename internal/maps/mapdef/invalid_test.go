package mapdef_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

// invalid is one file of testdata/invalid: a definition, as JSON or as the text of one, and
// exactly what is wrong with it.
type invalid struct {
	About    string          `json:"about"`
	Map      json.RawMessage `json:"map,omitempty"`
	Text     string          `json:"text,omitempty"`
	YAML     string          `json:"yaml,omitempty"`
	Faults   []mapdef.Fault  `json:"faults"`
	Warnings []mapdef.Fault  `json:"warnings"`
}

// update writes what the code finds into the files, for a person to read the difference.
var update = flag.Bool("update", false, "write testdata")

func TestInvalidDefinitionsHaveExactlyTheirFaults(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/invalid/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 40)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var tc invalid
			require.NoError(t, json.Unmarshal(raw, &tc))
			_, faults, warnings := tc.read()
			require.NotEmpty(t, append(faults, warnings...))
			if *update {
				tc.Faults, tc.Warnings = faults, warnings
				out, err := json.MarshalIndent(tc, "", "  ")
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, append(out, '\n'), 0o600))
				return
			}
			require.Equal(t, orEmpty(tc.Faults), orEmpty(faults))
			require.Equal(t, orEmpty(tc.Warnings), orEmpty(warnings))
		})
	}
}

func orEmpty(list []mapdef.Fault) []mapdef.Fault { return append([]mapdef.Fault{}, list...) }

func (tc invalid) read() (*mapdef.Definition, []mapdef.Fault, []mapdef.Fault) {
	source := []byte(tc.Map)
	if tc.Text != "" {
		source = []byte(tc.Text)
	}
	if tc.YAML != "" {
		converted, faults := mapdef.FromYAML([]byte(tc.YAML))
		if len(faults) > 0 {
			return nil, faults, nil
		}
		source = converted
	}
	d, faults := mapdef.Read(source)
	wrong, warnings := d.Check()
	faults = append(faults, wrong...)
	mapdef.Sort(faults)
	return d, faults, warnings
}
