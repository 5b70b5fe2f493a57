package mapdef_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

// blocks are all places of steps within a step. Each has %s for the id of the step, and %s for the
// steps in it.
func blocks() map[string]string {
	return map[string]string{
		"case":    `{"id":%q,"type":"switch","cases":[{"when":"${true}","steps":%s}]}`,
		"default": `{"id":%q,"type":"switch","cases":[{"when":"${false}","steps":[]}],"default":%s}`,
		"while":   `{"id":%q,"type":"while","when":"${false}","max_iterations":2,"steps":%s}`,
		"foreach": `{"id":%q,"type":"foreach","items":[1],"steps":%s}`,
		"branch":  `{"id":%q,"type":"parallel","branches":[{"id":"b","steps":%s}]}`,
		"catch":   `{"id":%q,"type":"transform","expr":"${1 / 0}","catch":[{"errors":["*"],"steps":%s}]}`,
	}
}

// nested returns a definition of n blocks within each other. The step in the innermost one has
// arguments that nest as deep as those of a call may.
func nested(block string, n int) []byte {
	const argsDepth = 64
	steps := `[{"id":"leaf","type":"verb","verb":"shop:read","args":` + strings.Repeat(`{"a":`, argsDepth) + `1` + strings.Repeat(`}`, argsDepth) + `}]`
	for i := range n {
		steps = "[" + fmt.Sprintf(block, fmt.Sprintf("s%d", i), steps) + "]"
	}
	return []byte(`{"schema_version":"1","name":"Deep","steps":` + steps + `}`)
}

func TestBlocksOfEachKindNestEightDeep(t *testing.T) {
	t.Parallel()
	schema := formatSchema(t)
	for kind, block := range blocks() {
		source := nested(block, mapdef.MaxNesting)
		d, faults := mapdef.Read(source)
		wrong, _ := d.Check()
		require.Empty(t, append(faults, wrong...), kind)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(value), kind)

		_, faults = mapdef.Read(nested(block, mapdef.MaxNesting+1))
		require.NotEmpty(t, faults, kind)
		for _, fault := range faults { // a switch has two blocks
			require.Equal(t, "nesting", fault.Rule, kind)
			require.Equal(t, "blocks nest at most 8 deep", fault.Message, kind)
		}
	}
}
