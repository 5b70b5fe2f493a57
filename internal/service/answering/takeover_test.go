package answering

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/modelstep"
)

// A note after a take-over has as much of a result as a model reads of it otherwise.
func TestNoteAfterATakeOverIsBoundedAndPlain(t *testing.T) {
	t.Parallel()
	note := noteOf("shop:get", modelstep.ToolEnd{Status: "executed", Result: json.RawMessage(`{"of":"p\u00fcr\u00e9e"}`)})
	require.Contains(t, note.Text, `"result":{"of":"pürée"}`)
	require.Contains(t, note.Text, `"call":"shop:get"`)
	long := noteOf("shop:get", modelstep.ToolEnd{Status: "executed", Result: json.RawMessage(`"` + strings.Repeat("x", 200_000) + `"`)})
	require.Less(t, len(long.Text), 20_000)
	require.Contains(t, long.Text, `"bytes":200002`)
}
