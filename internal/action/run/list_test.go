package run_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
)

// A list has every column of a run, except those that can be megabytes.
func TestListReadsNoArgumentsAndNoResults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	_, err := r.do("read", "one", `{"a":1}`)
	require.NoError(t, err)
	x := r.held("pay", "two", `{"n":1}`)
	require.Empty(t, r.decide(x, r.user("owner"), "approve", `{"n":2}`).Code)
	_, err = r.do("pay", "three", `{"bad":true}`)
	require.NoError(t, err)

	list, more, err := r.List(t.Context(), actor.SystemOf(r.tenant), run.Filter{Limit: 10})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, list, 3)
	for i, id := range []string{"three", "two", "one"} {
		want, err := r.Get(t.Context(), actor.SystemOf(r.tenant), id)
		require.NoError(t, err)
		require.NotEmpty(t, want.Args)
		want = want.WithoutKey()
		want.Args, want.Result = json.RawMessage{}, nil
		if want.EditedArgs != nil {
			want.EditedArgs = json.RawMessage{}
		}
		require.Equal(t, want, list[i])
	}
}
