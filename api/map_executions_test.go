package api

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

func TestMapFailedSaysWhatItsAuthorHasWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failed stepmachine.Error
		want   string
	}{
		"a detail":       {stepmachine.Error{Code: "NO", Title: "No.", Detail: "Not that one.", Instance: "/steps/0"}, "Not that one."},
		"only the title": {stepmachine.Error{Code: "NO", Title: "No.", Instance: "/steps/0"}, "No."},
	} {
		err := mapFailed(mapruns.Outcome{Execution: mapruns.Execution{ID: uuid.New(), Status: stepmachine.StatusFailed, Error: &c.failed}})
		require.Equal(t, []fault.Detail{{Path: "/steps/0", Rule: "NO", Message: c.want}}, fault.As(err).Details, name)
	}
}

// Who is told of a retry that would be refused looks for what they did wrong.
func TestMapFailedNamesTheRetryWhereItGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		execution mapruns.Execution
		goesOn    bool
	}{
		"its state is kept": {mapruns.Execution{Status: stepmachine.StatusFailed, KeepsState: true}, true},
		"it is too large":   {mapruns.Execution{Status: stepmachine.StatusFailed}, false},
		"steps were undone": {mapruns.Execution{Status: stepmachine.StatusFailed, KeepsState: true, Undoing: mapruns.Undoing{Undone: 1}}, false},
		"it is cancelled":   {mapruns.Execution{Status: stepmachine.StatusCancelled}, false},
	} {
		c.execution.ID, c.execution.ExecutionID = uuid.New(), "exec_1"
		message := fault.As(mapFailed(mapruns.Outcome{Execution: c.execution})).Message
		require.Equal(t, c.goesOn, strings.Contains(message, "POST /v1/executions/exec_1/retry"), "%s: %s", name, message)
	}
}

func TestTriggerSaysWhatItsExecutionWaitsFor(t *testing.T) {
	t.Parallel()
	s := assemble(Deps{Now: time.Now})
	for name, want := range map[string]json.RawMessage{"people": json.RawMessage(`{"for":"approval","step":"ask","approval_id":"apr_1"}`), "nothing": nil} {
		answer, err := json.Marshal(s.maps.triggered(mapruns.Outcome{Execution: mapruns.Execution{ID: uuid.Must(uuid.NewV7()), WaitingFor: want}}))
		require.NoError(t, err, name)
		var got struct {
			WaitingFor json.RawMessage `json:"waiting_for"`
		}
		require.NoError(t, json.Unmarshal(answer, &got), name)
		require.JSONEq(t, cmp.Or(string(want), "null"), string(got.WaitingFor), name)
	}
}
