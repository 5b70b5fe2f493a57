package execution_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// A model is told an output only where what masks it is known. Otherwise the call is made again. Where it
// will not be known later either, the model is told the output, all of it masked.
func TestOutputForModelIsAFaultOnlyWhereARepeatMayKnowMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Starts","steps":[{"id":"in","type":"map","map_id":"` + anotherMap + `"}]}`)
	r.maps.others = map[uuid.UUID]*stepmachine.Program{uuid.MustParse(anotherMap): nil}
	told := func(ctx context.Context, name string, by nothing) (string, error) {
		output, err := r.service(by).OutputForModel(ctx, execution.Execution{
			TenantID: r.tenant, ExecutionID: "exec_" + name, MapID: uuid.New(), Version: 1, Output: json.RawMessage(`{"a":1}`),
		})
		return string(output), err
	}
	output, err := told(t.Context(), "none", nothing{})
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, output)
	output, err = told(t.Context(), "none", nothing{unmasked: true})
	require.Error(t, err)
	require.Empty(t, output)
	gone, stop := context.WithCancel(t.Context())
	stop()
	_, err = told(gone, "none", nothing{})
	require.Error(t, err, "the versions cannot be read now")

	r.below("one", "first", anotherMap, 1)
	_, err = told(t.Context(), "one", nothing{})
	require.NoError(t, err, "the version is deleted")
	r.below("many", "each", anotherMap, 21_000)
	_, err = told(t.Context(), "many", nothing{})
	require.NoError(t, err, "nobody will look at all of them")
}

// How a call has ended may have a stored secret anywhere: in the result, and in the words and the
// provider's own of an error. The end that the caller has stays as it is.
func TestEndsOfCallsHaveNoStoredSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const secret = "token-of-the-fig-tree"
	s := r.service(nothing{secret: secret})
	quoted := json.RawMessage(`{"of":"fig","with":"` + secret + `"}`)
	failed := &stepmachine.Error{Code: "NO_WAY", Title: secret, Detail: secret, ProviderError: quoted}
	ends := []*modelstep.ToolEnd{{Status: "failed", Error: failed}, {Status: "pending"}, {Status: "executed", Result: quoted, Headers: map[string]string{"Link": secret}}}
	kept := ends[2].Headers
	require.NoError(t, s.HideEnds(t.Context(), r.tenant, ends...))
	const masked = `{"of":"fig","with":"[masked]"}`
	require.Equal(t, &stepmachine.Error{Code: "NO_WAY", Title: "[masked]", Detail: "[masked]", ProviderError: json.RawMessage(masked)}, ends[0].Error)
	require.Equal(t, secret, failed.Detail)
	require.Equal(t, &modelstep.ToolEnd{Status: "pending"}, ends[1])
	require.JSONEq(t, masked, string(ends[2].Result))
	require.Equal(t, map[string]string{"Link": "[masked]"}, ends[2].Headers)
	require.Equal(t, secret, kept["Link"])
}
