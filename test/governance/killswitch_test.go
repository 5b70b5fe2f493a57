package governance

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

const killSwitches = "/v1/kill-switch"

// killed is a kill switch as the API shows it.
type killed struct {
	ID     string  `json:"id"`
	Status string  `json:"status"`
	Target *string `json:"target"`
}

func (w *world) kill(body m) killed {
	w.t.Helper()
	a := w.User.Do(http.MethodPost, killSwitches, body)
	require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Body)
	var k killed
	a.Data(w.t, &k)
	return k
}

func (w *world) lift(k killed) {
	w.t.Helper()
	a := w.User.Do(http.MethodDelete, killSwitches+"/"+k.ID, nil)
	require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
}

func (w *world) inDatabase(sql string) (n int) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.s.DatabaseURL)
	require.NoError(w.t, err)
	defer conn.Close(w.t.Context())
	require.NoError(w.t, conn.QueryRow(w.t.Context(), sql, w.ID).Scan(&n))
	return n
}

// TestNoCallBeginsUnderAKillSwitch has 200 runs in flight: at the bank, between two attempts,
// before their first, and not yet made.
func TestNoCallBeginsUnderAKillSwitch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const runs = 200
	attempts := `SELECT coalesce(sum(sends), 0) FROM runs WHERE tenant_id = $1`
	answers := make([]rig.Answer, runs)
	var all sync.WaitGroup
	var callers rig.Callers
	for i := range runs {
		mode := []string{modeHold, modeLater, "", modeLater}[i%4]
		all.Go(func() {
			id := fmt.Sprintf("run-%d", i)
			answers[i] = callers.Settled(func() rig.Answer { return w.Runtime.Run(mediumWrite, m{"id": id, "mode": mode}, id) })
		})
	}
	for range 30 {
		<-w.bank.arrived
	}
	k := w.kill(m{"scope": "tenant", "reason": "out of control"})
	begun := w.inDatabase(attempts)
	w.bank.letGo()
	all.Wait()
	callers.RepeatedFew(t)
	executed, blocked := 0, -1
	for i, a := range answers {
		require.NoError(t, a.Err)
		if a.Status == http.StatusOK {
			executed++
			continue
		}
		blocked = i
		e := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, "block", e.Error.Decision)
		require.Contains(t, e.Error.Message, "out of control")
		require.Contains(t, e.Error.Message, k.ID)
		require.NotEmpty(t, e.Error.ApprovalID)
	}
	require.Equal(t, begun, w.inDatabase(attempts), "an attempt began after the answer")
	require.Len(t, w.bank.all(), begun, "each attempt reached the bank once")
	require.Equal(t, executed, w.bank.effects())
	require.NotEqual(t, -1, blocked, "every run was executed before the switch was set")

	id := fmt.Sprintf("run-%d", blocked)
	refused(t, w.Runtime.Run(mediumWrite, m{"id": id}, id), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	w.lift(k)
	succeeded(t, w.Runtime.Run(mediumWrite, m{"id": id}, id))
	require.Equal(t, []string{"kill_switch.set", "kill_switch.lifted"}, actions(w.audit("subject_type=kill_switch")))
	for _, kind := range []string{"kill_switch.set", "kill_switch.lifted"} {
		list, err := pages[m](w.User, "/v1/events?type="+kind)
		require.NoError(t, err)
		require.Len(t, list, 1, kind)
	}
}

func TestHeldCallIsApprovedUnderAKillSwitchAndSentAfterTheLift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	waits, approved := w.hold(highWrite, m{"id": "waits"}, "waits"), w.hold(highWrite, m{"id": "approved"}, "approved")
	k := w.kill(m{"scope": "verb", "target": highWrite, "reason": "r"})
	require.Equal(t, http.StatusOK, w.approve(approved).Status)
	require.Equal(t, "approved", w.approval(approved).Status)
	require.Equal(t, "pending_approval", w.status("waits"))
	refused(t, w.Runtime.Run(highWrite, m{"id": "new"}, "new"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Equal(t, "running", w.status("approved"))
	require.Empty(t, w.bank.all())
	w.lift(k)
	w.awaitStatus("approved", "executed")
	require.Equal(t, http.StatusOK, w.approve(waits).Status)
	w.awaitStatus("waits", "executed")
}

func TestKillSwitchStopsWhatItCovers(t *testing.T) {
	t.Parallel()
	mine := m{"agent_id": "agent-1"}
	for name, c := range map[string]struct {
		set           m
		stops, passes m // bodies of calls
	}{
		"the tenant": {set: m{"scope": "tenant"}, stops: m{"verb": lowRead}},
		"a provider": {set: m{"scope": "Provider", "target": slug}, stops: m{"verb": lowWrite}},
		"a verb":     {set: m{"scope": "verb", "target": lowWrite}, stops: m{"verb": lowWrite}, passes: m{"verb": lowRead}},
		"an agent": {
			set: m{"scope": "agent", "target": "agent-1"}, stops: m{"verb": lowRead, "metadata": mine}, passes: m{"verb": lowRead, "metadata": m{"agent_id": "agent-2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kill(with(c.set, m{"reason": "r"}))
			evaluate := func(body m) (e evaluated) {
				w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", with(body, m{"args": m{}})).Data(t, &e)
				return e
			}
			refused(t, w.send(with(c.stops, m{"args": m{}})), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			refused(t, w.send(with(c.stops, m{"args": m{}, "dryRun": true})), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			e := evaluate(c.stops)
			require.Equal(t, "block", e.Decision)
			require.Contains(t, e.Reason, "kill switch")
			require.Empty(t, w.bank.all())
			if c.passes != nil {
				require.Equal(t, "allow", evaluate(c.passes).Decision)
				succeeded(t, w.send(with(c.passes, m{"args": m{}})))
			}
		})
	}
}

func TestKillSwitchOfAnUnknownTargetIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for want, body := range map[string]m{
		"404 PROVIDER_NOT_FOUND": {"scope": "provider", "target": "bnak", "reason": "r"},
		"404 VERB_NOT_FOUND":     {"scope": "verb", "target": slug + ":none", "reason": "r"},
		"400 INVALID_VERB":       {"scope": "verb", "target": slug, "reason": "r"},
		"400 VALIDATION_ERROR":   {"scope": "agent", "reason": "r"},
		"400 VALIDATION_ERROR ":  {"scope": "tenant", "target": slug, "reason": "r"},
		"400 VALIDATION_ERROR  ": {"scope": "all", "reason": "r"},
	} {
		a := w.User.Do(http.MethodPost, killSwitches, body)
		require.Contains(t, want, fmt.Sprintf("%d %s", a.Status, a.Code(t)), "%v", body)
	}
	list, err := pages[killed](w.User, killSwitches+"?status=all")
	require.NoError(t, err)
	require.Empty(t, list)
}
