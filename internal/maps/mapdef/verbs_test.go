package mapdef_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

// A verb that a published Map names is quarantined where its new version may do more harm. So no
// place of a definition may escape.
func TestVerbsOfADefinitionAreThoseOfAllItsPlaces(t *testing.T) {
	t.Parallel()
	const (
		call  = `{"id":"call","type":"verb","verb":"shop:named"}`
		other = `{"id":"other","type":"set","assign":{"x":1}}`
	)
	for name, definition := range map[string]string{
		"a step":                    `"steps":[` + call + `]`,
		"the last of steps":         `"steps":[` + other + `,` + call + `]`,
		"a compensation":            `"steps":[{"id":"a","type":"set","assign":{"x":1},"compensate":{"verb":"shop:named"}}]`,
		"a tool of an agent":        `"steps":[{"id":"a","type":"agent","goal":"Do it.","tools":["shop:*","shop:named"]}]`,
		"a case of a switch":        `"steps":[{"id":"a","type":"switch","cases":[{"when":"${false}","steps":[` + other + `]},{"when":"${true}","steps":[` + call + `]}]}]`,
		"the default of a switch":   `"steps":[{"id":"a","type":"switch","cases":[{"when":"${true}","steps":[` + other + `]}],"default":[` + call + `]}]`,
		"a while":                   `"steps":[{"id":"a","type":"while","when":"${false}","max_iterations":2,"steps":[` + call + `]}]`,
		"a foreach":                 `"steps":[{"id":"a","type":"foreach","items":[1],"steps":[` + call + `]}]`,
		"a branch":                  `"steps":[{"id":"a","type":"parallel","branches":[{"id":"x","steps":[` + other + `]},{"id":"y","steps":[` + call + `]}]}]`,
		"a catch":                   `"steps":[{"id":"a","type":"set","assign":{"x":1},"catch":[{"errors":["*"],"steps":[` + call + `]}]}]`,
		"the second catch":          `"steps":[{"id":"a","type":"set","assign":{"x":1},"catch":[{"errors":["TIMEOUT"],"steps":[` + other + `]},{"errors":["*"],"steps":[` + call + `]}]}]`,
		"on_failure":                `"steps":[` + other + `],"on_failure":[` + call + `]`,
		"a compensation in a catch": `"steps":[{"id":"a","type":"set","assign":{"x":1},"catch":[{"errors":["*"],"steps":[{"id":"b","type":"set","assign":{"x":1},"compensate":{"verb":"shop:named"}}]}]}]`,
		"a catch in on_failure":     `"steps":[` + other + `],"on_failure":[{"id":"a","type":"set","assign":{"x":1},"catch":[{"errors":["*"],"steps":[` + call + `]}]}]`,
		"an agent deep in on_failure": `"steps":[` + other + `],"on_failure":[{"id":"a","type":"foreach","items":[1],"steps":[{"id":"b","type":"switch","cases":[{"when":"${true}","steps":[
			{"id":"c","type":"parallel","branches":[{"id":"x","steps":[{"id":"d","type":"agent","goal":"Do it.","tools":["shop:named"]}]}]}]}]}]}]`,
	} {
		d, faults := mapdef.Read(fmt.Appendf(nil, `{"schema_version":"1","name":"Named",%s}`, definition))
		require.Empty(t, faults, name)
		require.Equal(t, []string{"shop:named"}, d.Verbs(), name)
	}
}

func TestVerbsOfADefinitionAreEachNamedOnceInOrder(t *testing.T) {
	t.Parallel()
	d, faults := mapdef.Read([]byte(`{"schema_version":"1","name":"Named","steps":[
		{"id":"a","type":"verb","verb":"shop:pay","compensate":{"verb":"shop:refund"}},
		{"id":"b","type":"verb","verb":"shop:pay"},
		{"id":"c","type":"agent","goal":"Do it.","tools":["shop:*","*:*","shop:pa*","mail:send","shop:refund","map:named"]}],
		"on_failure":[{"id":"d","type":"verb","verb":"crm:note"}]}`))
	require.Empty(t, faults)
	require.Equal(t, []string{"crm:note", "mail:send", "map:named", "shop:pay", "shop:refund"}, d.Verbs(), "patterns name no verb")
	d, faults = mapdef.Read([]byte(`{"schema_version":"1","name":"None","steps":[{"id":"a","type":"set","assign":{"x":1}}]}`))
	require.Empty(t, faults)
	require.Equal(t, []string{}, d.Verbs(), "an empty list, not null")
}

// A new place for verbs in the format fails here as soon as a case of testdata uses it: no step, and
// nothing in one, has another member named verb.
func TestVerbsOfADefinitionAreAllMembersNamedVerb(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../testdata/maps/*.json")
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var tc struct {
			Map json.RawMessage `json:"map"`
		}
		require.NoError(t, json.Unmarshal(raw, &tc), file)
		d, _ := mapdef.Read(tc.Map)
		var tree any
		require.NoError(t, json.Unmarshal(tc.Map, &tree), file)
		for _, name := range membersNamedVerb(tree) {
			require.True(t, slices.Contains(d.Verbs(), name), "%s: %s", file, name)
		}
	}
}

func membersNamedVerb(v any) (names []string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			names = append(names, membersNamedVerb(item)...)
		}
	case map[string]any:
		for key, item := range v {
			if text, ok := item.(string); ok && key == "verb" {
				names = append(names, text)
			}
			names = append(names, membersNamedVerb(item)...)
		}
	}
	return names
}
