package expression_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/expression"
)

// seen is a sandbox that keeps what it gets.
type seen struct{ roots expression.Roots }

func (*seen) Spend(int) bool { return true }

func (s *seen) Run(_ context.Context, _ string, roots expression.Roots) ([]json.RawMessage, error) {
	s.roots = roots
	return []json.RawMessage{json.RawMessage("true")}, nil
}

// "." within the arguments of a function may be the event of a filter, or the calls of an agent.
func TestSandboxGetsTheDotOfArguments(t *testing.T) {
	t.Parallel()
	template, faults := expression.ParseTemplate(`${any(.calls[]; .done)}`)
	require.Empty(t, faults)
	sandbox := &seen{}
	text, err := template.Text(t.Context(), sandbox, expression.Roots{Dot: json.RawMessage(`{"calls":[]}`), Vars: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Equal(t, "true", text)
	require.JSONEq(t, `{"calls":[]}`, string(sandbox.roots.Dot))
	require.Nil(t, sandbox.roots.Vars)
}
