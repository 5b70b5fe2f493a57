package mapdef_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/mapgraph"
	"agentruntime/internal/maps/stepmachine"
)

// Whatever comes as a definition, reading, checking and drawing it does not panic. A definition without
// faults is read again from what it writes, and the step machine begins it.
func FuzzDefinition(f *testing.F) {
	for _, pattern := range []string{"../../../testdata/maps/*.json", "testdata/invalid/*.json"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(f, err)
			var tc struct {
				Map  json.RawMessage
				Text string
			}
			require.NoError(f, json.Unmarshal(raw, &tc))
			f.Add(append([]byte(tc.Text), tc.Map...))
		}
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		d, faults := mapdef.Read(source)
		wrong, _ := d.Check()
		mapgraph.Mermaid(d, nil)
		mapgraph.SVG(d, nil)
		if len(faults)+len(wrong) > 0 {
			return
		}
		raw, err := json.Marshal(d)
		require.NoError(t, err)
		var again mapdef.Definition
		require.NoError(t, json.Unmarshal(raw, &again))
		begins(t, d)
	})
}

// begins has the step machine begin the definition, go on from the stored state, and cancel it. A valid
// definition may not need anything that only its execution would find.
func begins(t *testing.T, d *mapdef.Definition) {
	t.Helper()
	p, err := stepmachine.Compile(d)
	require.NoError(t, err)
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	payload := stepmachine.Of(json.RawMessage(`{"id":1}`))
	for _, dryRun := range []bool{false, true} {
		s, _ := stepmachine.Start(p, now, stepmachine.Beginning{Execution: "exec_1", TriggerData: payload, DryRun: dryRun})
		raw, err := s.Encode()
		require.NoError(t, err)
		s, err = stepmachine.Decode(raw)
		require.NoError(t, err)
		s, _, err = stepmachine.Next(p, s, now.Add(time.Hour), stepmachine.Continued{})
		require.NoError(t, err)
		_, _, err = stepmachine.Next(p, s, now.Add(time.Hour), stepmachine.CancelRequested{})
		require.NoError(t, err)
	}
}

func FuzzYAML(f *testing.F) {
	f.Add([]byte("a: &x [1, *x]\n"))
	f.Add([]byte("schema_version: '1'\nname: a\nsteps:\n  - {id: a, type: transform, expr: \"${1}\"}\n"))
	f.Add([]byte("? [a]\n: - !!binary x\n"))
	f.Add([]byte("%YAML 1.2\n---\n|\n x\n...\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		raw, faults := mapdef.FromYAML(source)
		if len(faults) == 0 {
			require.True(t, json.Valid(raw), "%q", raw)
		}
	})
}
