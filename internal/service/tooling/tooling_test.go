package tooling_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/tooling"
)

func listed(name, schema string) catalog.Verb {
	return catalog.Verb{Name: verb.Name{Provider: "shop", Verb: name}, Description: name, Schema: json.RawMessage(schema), SchemaHash: sha256.Sum256([]byte(schema))}
}

func TestToolsAreWrittenOnceForASchema(t *testing.T) {
	t.Parallel()
	s, err := tooling.New()
	require.NoError(t, err)
	const schema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	verbs := []catalog.Verb{listed("one", schema), listed("two", schema), listed("broken", `true`)}
	form := tooling.Form{Format: tooldef.MCP}
	first, err := s.Tools(t.Context(), uuid.New(), verbs, form)
	require.NoError(t, err)
	require.Len(t, first, 3)
	require.Equal(t, []string{"all arguments"}, first[2].Omits)

	// What is kept needs no turn, so a caller who is gone gets it too.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	again, err := s.Tools(gone, uuid.New(), verbs, form)
	require.NoError(t, err)
	require.Equal(t, first, again)
	for i, tool := range again {
		made, ok := tool.Definition.(tooldef.MCPTool)
		require.True(t, ok)
		require.Equal(t, verbs[i].Name.ToolName(), made.Name)
	}
	_, err = s.Tools(gone, uuid.New(), verbs, tooling.Form{Format: tooldef.Gemini})
	require.ErrorIs(t, err, context.Canceled)
}
