package answering

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/goalloop"
)

// The results of a goal have a bound. Those of the oldest answers go first, and are stored no longer.
func TestGoalKeepsTheNewestResults(t *testing.T) {
	t.Parallel()
	const more = 3
	result := json.RawMessage(`"` + strings.Repeat("x", goalloop.MaxKept-2) + `"`)
	facts := func(id string) []goalloop.Fact {
		return []goalloop.Fact{{ID: id, Status: "executed", Result: result}}
	}
	w := &work{goal: &goal{}, next: conversation.Answer{Facts: facts("last")}}
	for i := range goalloop.MostKept/goalloop.MaxKept - 1 + more {
		w.Answers = append(w.Answers, conversation.Answer{Facts: facts(goalloop.FactID(i))})
	}
	w.keep()
	require.ElementsMatch(t, []int{0, 1, 2}, w.Shortened)
	require.Len(t, w.goal.facts, len(w.Answers)+1)
	for i, f := range w.goal.facts {
		require.Equal(t, i < more, f.Result == nil, f.ID)
	}
	w.Shortened = nil
	w.keep()
	require.Empty(t, w.Shortened)
}
