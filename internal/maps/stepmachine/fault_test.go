package stepmachine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/stepmachine"
)

// A step, a message, a goal and a manager read why a call was refused in the same words.
func TestFaultSaysWhatToDo(t *testing.T) {
	t.Parallel()
	args := fault.New(fault.CodeInvalidArgs, "")
	args.Details = []fault.Detail{{Path: "/args/amount", Rule: "type", Message: "must be a number."}}
	tool := fault.New(fault.CodeVerbNotFound, `There is no tool "create_refunds".`)
	tool.Suggestions = []string{"shop__create_refund"}
	lost := fault.New(fault.CodeOutcomeUnknown, "The answer was lost.")
	lost.ExecutionID = "exec_1"
	named := fault.New(fault.CodeOutcomeUnknown, "Settle exec_1 first.")
	named.ExecutionID = "exec_1"
	for name, c := range map[string]struct {
		fault *fault.Error
		want  string
	}{
		"arguments":             {args, "The arguments do not fit the verb's schema: /args/amount must be a number."},
		"one argument":          {fault.Invalid("/args/amount", "names", "has two names."), "/args/amount has two names."},
		"an unknown tool":       {tool, `There is no tool "create_refunds". Near names: shop__create_refund.`},
		"a reason of a policy":  {fault.New(fault.CodeGovernanceBlocked, "policy Big refunds: over 100"), "policy Big refunds: over 100"},
		"an unknown outcome":    {lost, "The answer was lost. The execution is exec_1."},
		"an outcome with names": {named, "Settle exec_1 first."},
		"a long one":            {fault.New(fault.CodeGovernanceBlocked, strings.Repeat("ü", 300)), strings.Repeat("ü", 248) + "…"},
	} {
		require.Equal(t, c.want, stepmachine.OfFault(c.fault).Detail, name)
	}
	limited := fault.New(fault.CodeProviderRejected, "")
	limited.Retryable, limited.RetryAfter = true, 1500*time.Millisecond
	e := stepmachine.OfFault(limited)
	require.True(t, e.Retryable)
	require.EqualValues(t, 1500, e.RetryAfterMS)
}
