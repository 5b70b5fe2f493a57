package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/jqchild"
)

// An expression that passes its bounds ends by them, and not by a timeout, after which it would be
// evaluated again.
func TestEvaluationHasTimeForItsOwnEnd(t *testing.T) {
	t.Parallel()
	opts := evaluateOptions()
	require.Greater(t, opts.StartToCloseTimeout, jqchild.Longest)
	require.GreaterOrEqual(t, opts.ScheduleToCloseTimeout, 2*opts.StartToCloseTimeout)
	require.Less(t, faultOptions().StartToCloseTimeout, jqchild.Longest, "these would be too short")
}
