package governance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/governance"
)

func TestContextOf(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for metadata, want := range map[string]governance.Context{
		``:                                    {},
		`{}`:                                  {},
		`[]`:                                  {},
		`{"agent_id":"a","customer_id":"c"}`:  {AgentID: text("a"), CustomerID: text("c")},
		`{"agent_id":7,"customer_id":"c"}`:    {CustomerID: text("c")},
		`{"agent_id":null,"Customer_ID":"c"}`: {},
	} {
		require.Equal(t, want, governance.ContextOf(json.RawMessage(metadata)), metadata)
	}
}
