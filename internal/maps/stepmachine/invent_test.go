package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

func TestInventedResultFitsWhatTheStepExpects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ expect, want string }{
		"nothing":         {``, ``},
		"members":         {`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer","minimum":3},"ok":{"type":"boolean"}}}`, `{"id":"invented","n":3,"ok":false}`},
		"without a type":  {`{"properties":{"id":{"type":["null","string"]}}}`, `{"id":"invented"}`},
		"formats":         {`{"type":"array","items":{"type":"string","format":"date"}}`, `["1970-01-01"]`},
		"what it says":    {`{"properties":{"a":{"const":1},"b":{"enum":["x","y"]},"c":{"default":{}},"d":{"examples":[7]}}}`, `{"a":1,"b":"x","c":{},"d":7}`},
		"a choice":        {`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `"invented"`},
		"a definition":    {`{"$ref":"#/$defs/id","$defs":{"id":{"type":"number"}}}`, `0`},
		"several at once": {`{"allOf":[{"$ref":"#/$defs/base"},{"properties":{"more":{"type":"boolean"}}}],"oneOf":[{"type":"null"},{"properties":{"one":{}}}],"$defs":{"base":{"type":"object","properties":{"id":{"type":"string"}}}}}`, `{"id":"invented","more":false,"one":null}`},
		"null or a value": {`{"anyOf":[{"type":"null"},{"type":"integer","minimum":4}]}`, `4`},
		"endless":         {`{"properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{"a":{"a":{"a":null}}}}}`},
	} {
		expect := ""
		if c.expect != "" {
			expect = `,"expect":` + c.expect
		}
		def, faults := mapdef.Read(json.RawMessage(`{"schema_version":"1","name":"x","steps":[{"id":"a","type":"verb","verb":"shop:buy"` + expect + `}]}`))
		require.Empty(t, faults, name)
		p, err := stepmachine.Compile(def)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(p.Invent(stepmachine.Ref{Path: "/steps/0"}, nil)), name)
	}
	p := &stepmachine.Program{}
	require.False(t, p.WantsAnswer(stepmachine.Ref{Path: "/steps/9"}))
	require.Nil(t, p.Invent(stepmachine.Ref{Path: "/steps/9"}, nil))
}

func TestInventedResultFitsTheAnswerWhereTheStepExpectsNothing(t *testing.T) {
	t.Parallel()
	answer := json.RawMessage(`{"$ref":"#/$defs/0","$defs":{"0":{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"of":{"$ref":"#/$defs/1"}}},"1":{"examples":["paid"],"type":"string"}}}`)
	const fits = `{"id":"00000000-0000-0000-0000-000000000000","of":"paid"}`
	for name, c := range map[string]struct {
		step, answer, want string
		wants              bool
	}{
		"of the answer":        {``, string(answer), fits, true},
		"expect goes first":    {`,"expect":{"type":"object","properties":{"n":{"type":"integer"}}}`, string(answer), `{"n":0}`, false},
		"a mock is enough":     {`,"mock":{"id":1}`, ``, ``, false},
		"no answer is known":   {``, ``, ``, true},
		"nothing of the value": {``, `{"x-opaque":true}`, ``, true},
		"no object":            {``, `{"type":"array","items":{"type":"string"}}`, `{"data":["invented"]}`, true},
	} {
		def, faults := mapdef.Read(json.RawMessage(`{"schema_version":"1","name":"x","steps":[{"id":"a","type":"verb","verb":"shop:buy"` + c.step + `}]}`))
		require.Empty(t, faults, name)
		p, err := stepmachine.Compile(def)
		require.NoError(t, err, name)
		ref := stepmachine.Ref{Path: "/steps/0"}
		require.Equal(t, c.wants, p.WantsAnswer(ref), name)
		require.Equal(t, c.want, string(p.Invent(ref, json.RawMessage(c.answer))), name)
	}
}

// A schema can lead from each member to all others. The members near the top are made up, and the value
// stays small.
func TestInventedResultIsBounded(t *testing.T) {
	t.Parallel()
	members := make([]string, 100)
	for i := range members {
		members[i] = fmt.Sprintf(`"m%d":{"$ref":"#"}`, i)
	}
	def, faults := mapdef.Read(json.RawMessage(`{"schema_version":"1","name":"x","steps":[{"id":"a","type":"verb","verb":"shop:buy"}]}`))
	require.Empty(t, faults)
	p, err := stepmachine.Compile(def)
	require.NoError(t, err)
	raw := p.Invent(stepmachine.Ref{Path: "/steps/0"}, json.RawMessage(`{"properties":{`+strings.Join(members, ",")+`,"zz":{"type":"string"}}}`))
	require.Less(t, len(raw), stepmachine.MaxInline)
	var v map[string]any
	require.NoError(t, json.Unmarshal(raw, &v))
	require.Equal(t, "invented", v["zz"])
	require.Len(t, v, len(members)+1)
}
