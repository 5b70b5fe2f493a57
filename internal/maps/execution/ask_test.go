package execution_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
)

// A task that was lost had withdrawn the question of a step, because something else had failed. Its repeat
// asks again, and may look before it sees that failure: nobody has rejected anything.
func TestQuestionThatALostTaskHasWithdrawnIsDecidedByNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Asks","steps":[{"id":"a","type":"approval","title":"Go on?"}]}`)
	in := r.triggered("asks")
	ref := stepmachine.Ref{Path: "/steps/0", Attempt: 1}
	ask := flow.MapAsk{MapWrites: flow.MapWrites{MapRef: in}, Workflow: "map:1", Ask: stepmachine.AskApproval{
		Ref: ref, Title: "Go on?", Payload: stepmachine.Of(json.RawMessage(`{}`)), Required: 1, ExpiresAt: time.Now().Add(time.Hour),
	}}
	_, err := r.Ask(t.Context(), ask)
	require.NoError(t, err)
	_, err = r.CloseAsk(t.Context(), flow.MapAskEnd{MapRef: in, Ref: ref})
	require.NoError(t, err)

	_, err = r.Ask(t.Context(), ask)
	require.NoError(t, err)
	news, err := r.Look(t.Context(), flow.MapLook{MapWrites: flow.MapWrites{MapRef: in}, Asks: []stepmachine.Ref{ref}})
	require.NoError(t, err)
	require.Empty(t, news.Decisions)

	for expired, decision := range map[bool]stepmachine.Decision{false: stepmachine.Reject, true: stepmachine.Expired} {
		out, err := r.CloseAsk(t.Context(), flow.MapAskEnd{MapRef: in, Ref: ref, Expired: expired})
		require.NoError(t, err)
		require.Equal(t, decision, out.Decision)
	}
}
