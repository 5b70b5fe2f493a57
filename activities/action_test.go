package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"agentruntime/activities"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// runs answers every call with the same step and error.
type runs struct {
	activities.Runs

	step flow.Step
	err  error
}

// Govern implements activities.Runs.
func (r runs) Govern(context.Context, flow.RunRef) (flow.Step, error) { return r.step, r.err }

func TestErrorsCrossTemporalAsTheirCodeOnly(t *testing.T) {
	t.Parallel()
	const canary = "sk_live_canary"
	for name, c := range map[string]struct {
		err  error
		code fault.Code
	}{
		"a refusal":                 {fault.New(fault.CodeServiceUnavailable, canary), fault.CodeServiceUnavailable},
		"a refusal that is wrapped": {fmt.Errorf("run: %w", fault.New(fault.CodeConflict, canary)), fault.CodeConflict},
		"any other error":           {errors.New(canary), fault.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := activities.NewAction(runs{err: c.err})
			require.NoError(t, err)
			_, err = a.GovernRun(t.Context(), flow.RunRef{TenantID: uuid.New(), RunID: uuid.New(), Attempt: 1})
			var crossed *temporal.ApplicationError
			require.ErrorAs(t, err, &crossed)
			require.Equal(t, string(c.code), crossed.Type())
			require.False(t, crossed.NonRetryable(), "Temporal tries the step again")
			require.NotContains(t, err.Error(), canary)
			require.NoError(t, errors.Unwrap(crossed), "no cause goes into the history")
		})
	}
}

func TestStepsCrossTemporalAsTheyAre(t *testing.T) {
	t.Parallel()
	want := flow.Step{State: flow.StatePending, ApprovalID: "appr_1"}
	a, err := activities.NewAction(runs{step: want})
	require.NoError(t, err)
	got, err := a.GovernRun(t.Context(), flow.RunRef{})
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = activities.NewAction(nil)
	require.Error(t, err)
}
