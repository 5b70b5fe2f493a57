package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// TestDevelopmentServerUsesATemporalThatRuns runs the build without a server, and makes a
// call of the shop that it seeded.
func TestDevelopmentServerUsesATemporalThatRuns(t *testing.T) {
	t.Parallel()
	temporal := rig.Temporal(t)
	s := rig.DevExternal(t, temporal)
	require.Equal(t, temporal, s.TemporalAddress)
	require.Empty(t, s.TemporalUIURL)
	rig.Until(t, time.Minute, "the banner is printed", func() bool { return strings.Contains(s.Parts["dev"].Log(), "Ctrl-C ends everything.") })
	require.Contains(t, s.Parts["dev"].Log(), temporal+"   (was running already)")
	require.NotContains(t, s.Parts["dev"].Log(), "Temporal UI")
	c := &rig.Client{Base: s.APIURL, Key: s.RuntimeKey, HTTP: rig.NewHTTP()}
	d := requireRun(t, c.Run("shop:create_order", map[string]any{"customer_id": "cus_1001", "amount": 1999, "currency": "eur"}, "order-1"))
	require.Equal(t, "executed", d.FenceStatus)
	require.Regexp(t, `^run/order-1/[0-9a-f]{16}$`, executionOf(t, c, "order-1").WorkflowID)
	require.Equal(t, http.StatusOK, c.Do(http.MethodGet, "/readyz", nil).Status)
}

// TestDevelopmentServerSaysWhereNoTemporalAnswers ends before anything is served.
func TestDevelopmentServerSaysWhereNoTemporalAnswers(t *testing.T) {
	t.Parallel()
	nobody := rig.FreeAddress(t)
	p := rig.Start(t, "dev", rig.Binary(t, rig.Build{Command: "agentruntime-dev", Tags: "external"}), nil,
		"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--temporal", nobody)
	<-p.Done()
	require.Contains(t, p.Log(), "no Temporal server answers at "+nobody)
}
