package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"agentruntime/test/rig"
)

// historyLengths returns how many events each history of a workflow has, the last history first.
func historyLengths(t *testing.T, s *rig.Stack, workflowID string) (lengths []int64) {
	t.Helper()
	c := stranger(t, s)
	for run := ""; ; {
		d, err := c.DescribeWorkflowExecution(t.Context(), workflowID, run)
		require.NoError(t, err)
		lengths = append(lengths, d.GetWorkflowExecutionInfo().GetHistoryLength())
		history := c.GetWorkflowHistory(t.Context(), workflowID, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		first, err := history.Next()
		require.NoError(t, err)
		if run = first.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); run == "" {
			return lengths
		}
	}
}
