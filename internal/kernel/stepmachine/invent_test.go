package stepmachine_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/mapdef"
	"agentruntime/internal/kernel/stepmachine"
)

func TestInventedResultFitsWhatTheStepExpects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ expect, want string }{
		"nothing":        {``, ``},
		"members":        {`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer","minimum":3},"ok":{"type":"boolean"}}}`, `{"id":"invented","n":3,"ok":false}`},
		"without a type": {`{"properties":{"id":{"type":["null","string"]}}}`, `{"id":"invented"}`},
		"formats":        {`{"type":"array","items":{"type":"string","format":"date"}}`, `["1970-01-01"]`},
		"what it says":   {`{"properties":{"a":{"const":1},"b":{"enum":["x","y"]},"c":{"default":{}},"d":{"examples":[7]}}}`, `{"a":1,"b":"x","c":{},"d":7}`},
		"a choice":       {`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `"invented"`},
		"a definition":   {`{"$ref":"#/$defs/id","$defs":{"id":{"type":"number"}}}`, `0`},
		"endless":        {`{"properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{"a":{"a":{"a":null}}}}}`},
	} {
		expect := ""
		if c.expect != "" {
			expect = `,"expect":` + c.expect
		}
		def, faults := mapdef.Read(json.RawMessage(`{"schema_version":"1","name":"x","steps":[{"id":"a","type":"verb","verb":"shop:buy"` + expect + `}]}`))
		require.Empty(t, faults, name)
		p, err := stepmachine.Compile(def)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(p.Invent(stepmachine.Ref{Path: "/steps/0"})), name)
	}
	p := &stepmachine.Program{}
	require.Nil(t, p.Invent(stepmachine.Ref{Path: "/steps/9"}))
}
