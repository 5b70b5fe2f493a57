package app

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/turns"
	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/maps/expression"
)

const endless = "def f: f; f"

// A program has 100 ms of the processor, and 100 ms more for each MiB that it reads.
func TestProgramOfAResultHasATenthOfASecond(t *testing.T) {
	t.Parallel()
	p := programs(t, programBounds())
	for result, most := range map[string]string{"": "100ms", strings.Repeat("x", 3<<20): "400ms"} {
		_, err := p.For("tenant").Run(t.Context(), endless, expression.Roots{TriggerData: json.RawMessage(`"` + result + `"`)})
		var failure *expression.Failure
		require.ErrorAs(t, err, &failure)
		require.Equal(t, expression.CodeLimit, failure.Code)
		require.Contains(t, failure.Detail, "longer than "+most)
	}
}

// Of three programs of a tenant one waits, and goes away where the others do not end. Another tenant's
// runs meanwhile.
func TestTenantHasTwoProgramsOfResultsAtOnce(t *testing.T) {
	t.Parallel()
	bounds := programBounds()
	require.Equal(t, 5*time.Second, bounds.Wait)
	bounds.Time, bounds.Wait = time.Hour, 50*time.Millisecond
	p := programs(t, bounds)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // none ends by itself
	defer cancel()
	ends := make(chan error, 3)
	for range cap(ends) {
		go func() {
			_, err := p.For("tenant").Run(ctx, endless, expression.Roots{})
			ends <- err
		}()
	}
	require.ErrorIs(t, <-ends, turns.ErrBusy)
	_, err := p.For("other").Run(t.Context(), "[range(1)]", expression.Roots{})
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-ends, context.Canceled)
	require.ErrorIs(t, <-ends, context.Canceled)
}

func programs(t *testing.T, bounds jqchild.Config) *jqchild.Pool {
	t.Helper()
	p, err := jqchild.New(bounds)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}
