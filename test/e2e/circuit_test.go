package e2e

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// moody is a provider that does to all calls what the test says.
type moody struct {
	mu      sync.Mutex
	answer  func(http.ResponseWriter, *http.Request)
	calls   int
	arrived chan struct{}
}

func (p *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	p.calls++
	answer := p.answer
	p.mu.Unlock()
	answer(w, r)
}

func (p *moody) does(answer func(http.ResponseWriter, *http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *moody) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *moody) fails(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (p *moody) works(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, fine)
}

// hangs keeps a call until its caller is gone.
func (p *moody) hangs(_ http.ResponseWriter, r *http.Request) {
	p.arrived <- struct{}{}
	<-r.Context().Done()
}

// broken is what GET /v1/providers/{slug} shows of the circuit.
type broken struct {
	State       string                  `json:"state"`
	Failures    int                     `json:"consecutive_failures"`
	Since       *time.Time              `json:"since"`
	NextProbeAt *time.Time              `json:"next_probe_at"`
	LastErrors  []struct{ Kind string } `json:"last_errors"`
}

// circuitWorld is a tenant and a provider that may fail, on a stack with two workers.
type circuitWorld struct {
	*testing.T

	s        *rig.Stack
	tenant   *rig.Tenant
	provider *moody
	calls    int
}

func (w *circuitWorld) call() rig.Answer {
	w.Helper()
	w.calls++
	return w.tenant.Runtime.Run("moody:create_thing", map[string]any{"id": "x"}, fmt.Sprintf("call-%d", w.calls))
}

// requireFailure makes a call that the provider answers 503.
func (w *circuitWorld) requireFailure() {
	w.Helper()
	requireCode(w.T, w.call(), http.StatusBadGateway, "PROVIDER_ERROR")
}

// requireRefusal makes a call that is not sent, and returns for how long the caller should wait.
func (w *circuitWorld) requireRefusal() time.Duration {
	w.Helper()
	before := w.provider.seen()
	a := w.call()
	e := requireCode(w.T, a, http.StatusServiceUnavailable, "CIRCUIT_OPEN")
	require.True(w, e.Error.Retryable)
	require.NotEmpty(w, a.Header.Get("Retry-After"))
	require.Equal(w, before, w.provider.seen(), "a refused call reached the provider")
	return time.Duration(e.Error.RetryAfterMS) * time.Millisecond
}

func (w *circuitWorld) circuit() (c broken) {
	w.Helper()
	var shown struct{ Circuit broken }
	w.tenant.User.Do(http.MethodGet, "/v1/providers/moody", nil).Data(w, &shown)
	return shown.Circuit
}

func (w *circuitWorld) health(c *rig.Client) string {
	w.Helper()
	var limits struct {
		Health struct {
			CircuitState string `json:"circuit_state"`
		}
	}
	c.Do(http.MethodGet, "/v1/rate-limits", nil).Data(w, &limits)
	return limits.Health.CircuitState
}

// pauseIsOver lets the next call pass as a probe.
func (w *circuitWorld) pauseIsOver() {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.s.DatabaseURL)
	require.NoError(w, err)
	defer conn.Close(w.Context())
	_, err = conn.Exec(w.Context(), `UPDATE circuits SET probe_at = now() WHERE tenant_id = $1`, w.tenant.ID)
	require.NoError(w, err)
}

// only lets one of the two workers run.
func (w *circuitWorld) only(worker string) {
	w.Helper()
	other := map[string]string{"worker": "worker-2", "worker-2": "worker"}[worker]
	w.s.Kill(other)
	w.s.Restart(worker)
}

// Two workers make calls one after the other. Neither sees enough failures alone.
func TestCircuitIsSharedByAllWorkers(t *testing.T) {
	t.Parallel()
	s := rig.Split(t, rig.SplitOptions{Workers: 2})
	w := &circuitWorld{T: t, s: s, tenant: newTenant(s), provider: &moody{arrived: make(chan struct{}, 8)}}
	stranger := newTenant(s)
	base := rig.Serve(t, w.provider)
	for _, tenant := range []*rig.Tenant{w.tenant, stranger} {
		tenant.Connect(t, "moody", base, faultyDocument(), "bearer", map[string]string{"token": "secret-token"})
	}
	require.Equal(t, broken{State: "closed", LastErrors: []struct{ Kind string }{}}, w.circuit())
	w.provider.does(w.provider.works)
	requireRun(t, w.call())
	require.Equal(t, "closed", w.health(w.tenant.Runtime))

	w.provider.does(w.provider.fails)
	s.Kill("worker-2")
	for range 5 {
		w.requireFailure()
	}
	require.Equal(t, broken{State: "closed", Failures: 5, LastErrors: w.circuit().LastErrors}, w.circuit())
	w.only("worker-2")
	for range 5 {
		w.requireFailure()
	}
	require.LessOrEqual(t, w.requireRefusal(), 10*time.Second)
	c := w.circuit()
	require.Equal(t, "open", c.State)
	require.Equal(t, 10, c.Failures)
	require.Equal(t, 10*time.Second, c.NextProbeAt.Sub(*c.Since))
	require.Len(t, c.LastErrors, 5)
	require.Equal(t, "http_503", c.LastErrors[0].Kind)
	require.Equal(t, "open", w.health(w.tenant.Runtime))

	require.Equal(t, "closed", w.health(stranger.Runtime))
	requireCode(t, stranger.Runtime.Run("moody:create_thing", map[string]any{"id": "x"}, ""), http.StatusBadGateway, "PROVIDER_ERROR")

	w.pauseIsOver()
	w.requireFailure()
	require.Greater(t, w.requireRefusal(), 10*time.Second, "the probe failed, so the pause is twice as long")

	// The process of the next probe is killed while the provider has its call.
	w.pauseIsOver()
	w.provider.does(w.provider.hangs)
	var probe sync.WaitGroup
	probe.Go(func() { w.tenant.Runtime.Run("moody:create_thing", map[string]any{"id": "x"}, "lost") })
	<-w.provider.arrived
	require.Equal(t, "half_open", w.health(w.tenant.User))
	w.requireRefusal()
	w.provider.does(w.provider.works)
	w.only("worker")
	rig.Until(t, terminalLimit, "another call passes as the probe", func() bool { return w.call().Status == http.StatusOK })
	require.Equal(t, "closed", w.circuit().State)
	require.Equal(t, "closed", w.health(w.tenant.Runtime))
	probe.Wait()
	awaitStatus(t, w.tenant.Runtime, "lost", "outcome_unknown")

	var trail []struct {
		Action    string `json:"action"`
		ActorType string `json:"actor_type"`
	}
	w.tenant.User.Do(http.MethodGet, "/v1/audit?subject=moody&subject_type=provider", nil).Data(t, &trail)
	var changes []string
	for _, record := range trail {
		if record.ActorType == "system" {
			changes = append(changes, record.Action)
		}
	}
	require.Equal(t, []string{"circuit.closed", "circuit.opened"}, changes)
}
