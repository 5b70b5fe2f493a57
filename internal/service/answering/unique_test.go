package answering

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
)

// Results find their calls by the ids, so no two calls of an answer have the same one.
func TestCallsOfAnAnswerHaveDifferentIDs(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]string{
		"none": {"", ""}, "the same": {"a", "a", "a"}, "made up before": {"call_1", "call_1"}, "made up after": {"", "call_0", ""},
	} {
		r := model.Response{}
		for _, id := range ids {
			r.Calls = append(r.Calls, model.ToolCall{ID: id})
		}
		seen := map[string]bool{}
		for _, call := range unique(r).Calls {
			require.NotEmpty(t, call.ID, name)
			require.False(t, seen[call.ID], "%s: %s", name, call.ID)
			seen[call.ID] = true
		}
	}
}
