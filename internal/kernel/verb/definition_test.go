package verb

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKindOfPlan(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]PlanKind{
		`{"method":"GET","path":"/a"}`:   KindHTTP, // stored before there were kinds
		`{"kind":"http","method":"GET"}`: KindHTTP,
		`{"kind":"mcp"}`:                 "mcp",
	} {
		got, err := KindOf(json.RawMessage(plan))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := KindOf(json.RawMessage(`{"kind":`))
	require.Error(t, err)
}
