package execution_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// A start that fails while the caller waits ends the waiting with its reason, also where that breaks
// off a look at the row.
func TestAwaitThatIsBrokenOffSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.keyed(1, "queue")
	e := r.trigger("a")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.CodeServiceUnavailable, "The start has failed."))
	for range 30 { // the deadline is over too: each time one of the two is seen first
		_, err := r.Await(ctx, e, time.Now().Add(-time.Second))
		require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%v", err)
	}
}
