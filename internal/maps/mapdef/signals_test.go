package mapdef_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

func TestSignalsAreThoseThatAStepMayWaitFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ steps, onFailure, want string }{
		"no step waits":          {`{"id":"a","type":"wait","for":"1s"},{"id":"b","type":"escalate","reason":"r","wait":false}`, ``, ""},
		"an event":               {`{"id":"a","type":"wait","event":{"type":"go"}}`, ``, "go"},
		"one twice":              {`{"id":"a","type":"wait","event":{"type":"go"}},{"id":"b","type":"wait","event":{"type":"go"}}`, ``, "go"},
		"in a block":             {`{"id":"a","type":"foreach","items":[1],"steps":[{"id":"b","type":"wait","event":{"type":"go"}}]}`, ``, "go"},
		"after a failure":        {``, `{"id":"a","type":"wait","event":{"type":"go"}}`, "go"},
		"an escalation":          {`{"id":"a","type":"escalate","reason":"r","wait":true}`, ``, "handled"},
		"a model asks, and more": {`{"id":"a","type":"summarize","input":"x"},{"id":"b","type":"wait","event":{"type":"go"}}`, ``, "go handled input"},
	} {
		def, faults := mapdef.Read([]byte(`{"schema_version":"1","name":"Waits","steps":[` + c.steps + `],"on_failure":[` + c.onFailure + `]}`))
		require.Empty(t, faults, name)
		require.Equal(t, c.want, strings.Join(def.Signals(), " "), name)
	}
}
