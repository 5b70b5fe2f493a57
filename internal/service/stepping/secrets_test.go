package stepping

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// What a step asks a model has no secret that the tenant has stored: neither as it is sent, nor as it is
// kept. Where nobody knows which values are secrets, the call is made again, and nothing is sent.
func TestRequestToAModelHasNoStoredSecret(t *testing.T) {
	t.Parallel()
	secret := "token-" + uuid.NewString()
	def, faults := mapdef.Read([]byte(`{"schema_version":"1","name":"Sums up","steps":[{"id":"sum","type":"summarize","input":"${trigger_data}"}]}`))
	require.Empty(t, faults)
	program, err := stepmachine.Compile(def)
	require.NoError(t, err)
	s := &stubs{program: program, secret: secret, unknown: errors.New("no key")}
	_, stepper, ref := newStepper(t, s)
	input, err := json.Marshal(map[string]any{"input": map[string]string{"with": secret, "kind": "a fruit of some kind"}})
	require.NoError(t, err)
	start := stepmachine.StartModel{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Type: "summarize", Input: stepmachine.Of(input)}
	_, err = stepper.Write(t.Context(), flow.MapWrites{MapRef: ref, Commands: []stepmachine.Command{start}})
	require.NoError(t, err)

	ask := flow.MapModelCall{MapRef: ref, Ref: start.Ref}
	_, err = stepper.AskModel(t.Context(), ask)
	require.ErrorIs(t, err, s.unknown)
	require.Empty(t, s.sent)
	s.unknown = nil
	end, err := stepper.AskModel(t.Context(), ask)
	require.NoError(t, err)
	require.True(t, end.Done)
	require.Len(t, s.sent, 1)
	sent := s.sent[0].Messages[0].Text
	require.NotContains(t, sent, secret)
	require.Contains(t, sent, `{"kind":"a fruit of some kind","with":"[masked]"}`)

	e, err := stepper.Head(t.Context(), ref)
	require.NoError(t, err)
	asked, err := stepper.Model(t.Context(), e, start.Ref)
	require.NoError(t, err)
	kept, err := asked.Turns(t.Context())
	require.NoError(t, err)
	require.Equal(t, sent, kept[0].Request.Messages[0].Text)
}
