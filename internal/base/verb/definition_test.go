package verb

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeadOfPlan(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]PlanKind{
		`{"method":"GET","path":"/a"}`:   KindHTTP, // stored before there were kinds
		`{"kind":"http","method":"GET"}`: KindHTTP,
		`{"kind":"mcp"}`:                 "mcp",
	} {
		got, err := HeadOf(json.RawMessage(plan))
		require.NoError(t, err)
		require.Equal(t, PlanHead{Kind: want}, got)
		require.Equal(t, 20*time.Second, got.Timeout(20*time.Second))
	}
	h, err := HeadOf(json.RawMessage(`{"timeout_ms":1500,"read_back":{"verb":"get","match":{"equals":{"id":"${args.id}"}}}}`))
	require.NoError(t, err)
	require.Equal(t, 1500*time.Millisecond, h.Timeout(20*time.Second))
	require.NoError(t, h.ReadBack.Check())
	require.Equal(t, MaxTimeout, PlanHead{TimeoutMS: 1 << 40}.Timeout(time.Second))
	_, err = HeadOf(json.RawMessage(`{"kind":`))
	require.Error(t, err)
}
