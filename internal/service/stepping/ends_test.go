package stepping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// What a step learns of the end of its call: whether it may be made again without a second effect, and
// whether the machine makes it again by itself.
func TestEndOfACallSaysWhatASecondOneMayDo(t *testing.T) {
	t.Parallel()
	const typed = "urn:agentruntime:error:"
	for name, c := range map[string]struct {
		run    run.Run
		writes bool
		want   stepmachine.CallEnd
		err    *stepmachine.Error // with the members that count
	}{
		"a write that was done": {run.Run{State: run.StateExecuted, Sends: 1}, true, stepmachine.CallEnd{Status: stepmachine.CallExecuted, Sent: true, Wrote: true}, nil},
		"a read that was done":  {run.Run{State: run.StateExecuted, Sends: 1}, false, stepmachine.CallEnd{Status: stepmachine.CallExecuted, Sent: true}, nil},
		"a write of a dry run":  {run.Run{State: run.StateIntercepted}, true, stepmachine.CallEnd{Status: stepmachine.CallIntercepted}, nil},
		"a write without an outcome": {
			run.Run{State: run.StateOutcomeUnknown, Sends: 1, ErrorCode: fault.CodeOutcomeUnknown},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallUnknown, Sent: true},
			&stepmachine.Error{Type: typed + "OUTCOME_UNKNOWN", Code: "OUTCOME_UNKNOWN", Status: 504},
		},
		"a call that was cancelled": {
			run.Run{State: run.StateCancelled},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallCancelled},
			&stepmachine.Error{Type: typed + "CONFLICT", Code: "CONFLICT", Status: 409},
		},
		"a call that governance blocks": {
			run.Run{State: run.StateBlocked},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, MayRepeat: true},
			&stepmachine.Error{Type: typed + "GOVERNANCE_BLOCKED", Code: "GOVERNANCE_BLOCKED", Status: 403},
		},
		"a call that people reject": {
			run.Run{State: run.StateRejected},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, MayRepeat: true},
			&stepmachine.Error{Type: stepmachine.TypeRejected, Code: "GOVERNANCE_BLOCKED", Status: 403},
		},
		"a write that failed before it was sent": {
			run.Run{State: run.StateFailed, ErrorCode: fault.CodeProviderError, Retryable: true},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, MayRepeat: true},
			&stepmachine.Error{Type: typed + "PROVIDER_ERROR", Code: "PROVIDER_ERROR", Status: 502, Retryable: true},
		},
		"a write that failed when it was sent": {
			run.Run{State: run.StateFailed, Sends: 1, ErrorCode: fault.CodeProviderError},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, Sent: true},
			&stepmachine.Error{Type: typed + "PROVIDER_ERROR", Code: "PROVIDER_ERROR", Status: 502},
		},
		"a read that failed when it was sent": {
			run.Run{State: run.StateFailed, Sends: 1, ErrorCode: fault.CodeProviderTimeout, Retryable: true},
			false,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, Sent: true, MayRepeat: true},
			&stepmachine.Error{Type: typed + "PROVIDER_TIMEOUT", Code: "PROVIDER_TIMEOUT", Status: 504, Retryable: true},
		},
		"a write that the provider refused": {
			run.Run{State: run.StateFailed, Sends: 1, ErrorCode: fault.CodeProviderRejected, Retryable: true},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, Sent: true, MayRepeat: true},
			&stepmachine.Error{Type: typed + "PROVIDER_REJECTED", Code: "PROVIDER_REJECTED", Status: 422},
		},
		"a write that came too early": {
			run.Run{State: run.StateRefused, Sends: 1, ErrorCode: fault.CodeProviderRejected, Retryable: true},
			true,
			stepmachine.CallEnd{Status: stepmachine.CallFailed, Sent: true, MayRepeat: true},
			&stepmachine.Error{Type: typed + "PROVIDER_REJECTED", Code: "PROVIDER_REJECTED", Status: 422, Retryable: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := (&Stepper{}).end(stepmachine.Ref{}, run.Progress{Run: c.run, Step: flow.Step{Done: true}, Writes: c.writes}).End
			if c.err != nil {
				require.NotEmpty(t, got.Error.Title)
				got.Error.Title, got.Error.Detail = "", ""
				require.Equal(t, c.err, got.Error)
				got.Error = nil
			}
			got.Result = stepmachine.Value{}
			require.Equal(t, c.want, got)
		})
	}
}

// The run alone has the list of what is wrong. People look at the step first, and a trigger shows nothing
// else.
func TestErrorOfACallWithWrongArgumentsNamesTheFirstOnes(t *testing.T) {
	t.Parallel()
	const title = "The arguments do not fit the verb's schema"
	wrong := func(n int, message string) (list []fault.Detail) {
		for i := range n {
			list = append(list, fault.Detail{Path: fmt.Sprintf("/args/a%d", i), Rule: "type", Message: message})
		}
		return list
	}
	for name, c := range map[string]struct {
		details []fault.Detail
		want    string
	}{
		"nothing is named":   {nil, title + "."},
		"one":                {wrong(1, "must be string"), title + ": /args/a0 must be string."},
		"a sentence":         {wrong(1, "must be a verb."), title + ": /args/a0 must be a verb."},
		"as many as it says": {wrong(3, "is required"), title + ": /args/a0 is required; /args/a1 is required; /args/a2 is required."},
		"more":               {wrong(5, "is required"), title + ": /args/a0 is required; /args/a1 is required; /args/a2 is required; and 2 more."},
		"a long one":         {wrong(1, strings.Repeat("ü", 300)), title + ": /args/a0 " + strings.Repeat("ü", (497-len(title+": /args/a0 "))/2) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := run.Run{State: run.StateFailed, ErrorCode: fault.CodeInvalidArgs, ErrorDetails: c.details}
			got := (&Stepper{}).end(stepmachine.Ref{}, run.Progress{Run: failed, Step: flow.Step{Done: true}}).End.Error
			require.Equal(t, title+".", got.Title)
			require.Equal(t, c.want, got.Detail)
			require.LessOrEqual(t, len(got.Detail), 500)
		})
	}
}
