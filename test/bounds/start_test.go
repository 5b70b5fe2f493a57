package bounds

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

func ended(p *rig.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func TestProcessesThatStartWithoutPostgresWaitForIt(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{})
	for _, part := range []string{"worker", "api", "postgres"} {
		s.Kill(part)
	}
	s.Restart("worker")
	s.Restart("api")
	c := &rig.Client{Base: s.APIURL, HTTP: rig.NewHTTP()}
	rig.Until(t, 30*time.Second, "the API listens", func() bool { return c.Do(http.MethodGet, "/healthz", nil).Status == http.StatusOK })
	a := c.Do(http.MethodGet, "/readyz", nil)
	status(t, a, http.StatusServiceUnavailable)
	require.Equal(t, "SERVICE_UNAVAILABLE", a.Code(t))
	rig.Until(t, 30*time.Second, "the worker has tried to reach Postgres", func() bool {
		return len(s.Parts["worker"].Log()) > 0
	})
	require.False(t, ended(s.Parts["worker"]), s.Parts["worker"].Log())
	require.False(t, ended(s.Parts["api"]), s.Parts["api"].Log())

	// Both end on a signal while they wait.
	for _, part := range []string{"worker", "api"} {
		s.Parts[part].Stop()
		require.NotContains(t, s.Parts[part].Log(), "panic")
		s.Restart(part)
	}

	s.Restart("postgres")
	s.AwaitAPI()
	tenant := s.NewTenant(rig.Address())
	tenant.Connect(t, "bank", bank(t), document(1), "bearer", m{"token": "bank-token"})
	status(t, tenant.Runtime.Run("bank:pay_1", m{"n": 1}, "once"), http.StatusOK)
}
