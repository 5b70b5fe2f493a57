package stepmachine_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/simulate"
)

var update = flag.Bool("update", false, "write the traces of testdata/maps")

// mapsFolder has the cases that the definition and the engine are tested with too.
const mapsFolder = "../../../testdata/maps/"

// shared reads testdata/maps.
func shared(t *testing.T) []named {
	t.Helper()
	files, err := filepath.Glob(mapsFolder + "*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	list := make([]named, 0, len(files))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var c simulate.Case
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&c), file)
		list = append(list, named{"maps/" + strings.TrimSuffix(filepath.Base(file), ".json"), c})
	}
	return list
}

// TestMaps runs each case of testdata/maps, and compares its trace. With -update it writes the
// traces instead.
func TestMaps(t *testing.T) {
	t.Parallel()
	for _, c := range shared(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trace := c.Expect.Trace
			c.Expect.Trace = nil
			r := run(t, &c.Case, simulate.Options{Store: true})
			defer func() {
				if t.Failed() {
					t.Log("\n" + strings.Join(r.Trace, "\n"))
				}
			}()
			expect(t, &c.Case, r)
			file := mapsFolder + strings.TrimPrefix(c.name, "maps/") + ".json"
			if *update {
				writeTrace(t, file, r.Trace)
				return
			}
			require.Equal(t, trace, r.Trace, "run with -update if that is meant")
		})
	}
}

// writeTrace puts the trace at the end of what is expected, and leaves the rest of the file as
// it is.
func writeTrace(t *testing.T, file string, trace []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(raw)
	if at := strings.Index(text, ",\n    \"trace\": ["); at >= 0 {
		end := strings.Index(text[at:], "\n    ]")
		require.Positive(t, end, file)
		text = text[:at] + text[at+end+len("\n    ]"):]
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	var list []string
	for _, line := range trace {
		lines.Reset()
		require.NoError(t, enc.Encode(line))
		list = append(list, "      "+strings.TrimSpace(lines.String()))
	}
	end := strings.LastIndex(text, "\n  }\n}")
	require.Positive(t, end, file)
	text = text[:end] + ",\n    \"trace\": [\n" + strings.Join(list, ",\n") + "\n    ]" + text[end:]
	require.True(t, json.Valid([]byte(text)), file)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}
