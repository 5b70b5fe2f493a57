//go:build chaos

package chaos

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A worker is stopped between the mark of its calls and their first byte, as a suspended
// machine is. Another worker is given its runs. When the first one goes on, it sends nothing.
func TestChaosFrozenWorkerSendsNothingLate(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	ctx, giveUp := context.WithTimeout(t.Context(), patience)
	defer giveUp()
	const point = "after_sending"
	w := &wave{victims: victimWorker}
	for _, r := range c.launch(ctx, w, point, []string{verbWrite, verbKeyed}) {
		c.gate.await(t, point, r.id)
	}
	frozen := c.stack.Parts[victimWorker]
	require.NoError(t, syscall.Kill(frozen.Pid(), syscall.SIGSTOP))
	w.restarted = time.Now()
	c.stack.Restart(victimWorker)
	w.calling.Wait()
	c.gate.open()
	require.NoError(t, syscall.Kill(frozen.Pid(), syscall.SIGCONT))
	// It finishes its steps before it ends.
	require.NoError(t, syscall.Kill(frozen.Pid(), syscall.SIGTERM))
	<-frozen.Done()
	seen := c.inspect(w)
	require.Empty(t, violations(seen))
	for _, o := range seen {
		want, arrivals := statusUnknown, 0
		if o.verb == verbKeyed {
			want, arrivals = statusExecuted, 1
		}
		require.Equal(t, want, o.status, o.verb)
		require.Equal(t, arrivals, o.arrivals, o.verb)
	}
}
