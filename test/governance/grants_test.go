package governance

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// grant gives one and returns its id.
func (w *world) grant(more m) string {
	w.t.Helper()
	a := w.User.Do(http.MethodPost, "/v1/grants", grantOf(more))
	require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Body)
	var made struct{ ID string }
	a.Data(w.t, &made)
	return made.ID
}

func grantOf(more m) m {
	return with(m{"verb": highWrite, "max_uses": 10, "reason": "standing order", "expires_at": in(time.Hour)}, more)
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }

func small(most int) []m {
	return []m{{"field": "args.amount", "operator": "less_or_equal", "value": most}}
}

func TestGrantLetsMatchingCallsThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(slug + ":high_*")
	other, otherID := w.key("actions:run")
	grant := w.grant(m{"conditions": small(100), "max_uses": 3})
	w.grant(m{"verb": highOther, "api_key_id": otherID})

	// A call is held unless the conditions are certainly true.
	for name, args := range map[string]string{
		"above": `{"id":"no","amount":100.01}`, "missing": `{"id":"no"}`, "null": `{"id":"no","amount":null}`, "a string": `{"id":"no","amount":"1"}`,
	} {
		a := w.send([]byte(`{"verb":"` + highWrite + `","args":` + args + `}`))
		require.NotEqual(t, http.StatusOK, a.Status, "%s: %s", name, a.Body)
	}
	w.hold(highOther, m{"id": "no"}, "") // not this key's
	require.Zero(t, w.bank.effects())

	execution := id()
	succeeded(t, w.Runtime.Run(highWrite, m{"id": "yes", "amount": 100}, execution))
	require.Equal(t, "cached", succeeded(t, w.Runtime.Run(highWrite, m{"id": "yes", "amount": 100}, execution)).FenceStatus)
	succeeded(t, other.Run(highOther, m{"id": "theirs"}, ""))
	require.Equal(t, 2, w.bank.effects())

	log := w.audit("execution_id=" + execution)
	require.Equal(t, []string{"grant.used", "run.allowed", "run.executed"}, actions(log))
	require.Equal(t, grant, log[0].SubjectID)
	require.Contains(t, string(log[1].Details), grant)
	var g struct {
		Uses   int    `json:"uses"`
		Status string `json:"status"`
	}
	w.User.Do(http.MethodGet, "/v1/grants/"+grant, nil).Data(t, &g)
	require.Equal(t, 1, g.Uses)
}

func TestGrantRacingCallsUseItNoMoreThanAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	w.grant(m{"max_uses": 5})
	var ran atomic.Int64
	inLine(30, 15, func(i int) {
		if w.Runtime.Run(highWrite, m{"id": strconv.Itoa(i)}, "").Status == http.StatusOK {
			ran.Add(1)
		}
	})
	require.EqualValues(t, 5, ran.Load())
	require.Equal(t, 5, w.bank.effects())
}

func TestGrantEndedLetsNothingThrough(t *testing.T) {
	t.Parallel()
	t.Run("when it is revoked", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.gate(highWrite)
		grant := w.grant(nil)
		succeeded(t, w.Runtime.Run(highWrite, m{"id": "before"}, ""))
		require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/grants/"+grant, nil).Status)
		w.hold(highWrite, m{"id": "after"}, "")
		require.Equal(t, 1, w.bank.effects())
	})
	t.Run("when its time is over", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.gate(highWrite)
		grant := w.grant(m{"expires_at": in(1500 * time.Millisecond)})
		rig.Until(t, limit, "the grant has expired", func() bool {
			var g struct{ Status string }
			w.User.Do(http.MethodGet, "/v1/grants/"+grant, nil).Data(t, &g)
			return g.Status == "expired"
		})
		w.hold(highWrite, m{"id": "after"}, "")
		require.Zero(t, w.bank.effects())
	})
	t.Run("when its giver may no longer approve", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.gate(highWrite)
		giver, giverID := w.member("approver")
		require.Equal(t, http.StatusCreated, giver.Do(http.MethodPost, "/v1/grants", grantOf(nil)).Status)
		succeeded(t, w.Runtime.Run(highWrite, m{"id": "before"}, ""))
		require.Equal(t, http.StatusOK, w.User.Do(http.MethodPatch, "/v1/users/"+giverID, m{"role": "member"}).Status)
		w.hold(highWrite, m{"id": "as a member"}, "")
		require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/users/"+giverID, nil).Status)
		w.hold(highWrite, m{"id": "removed"}, "")
		require.Equal(t, 1, w.bank.effects())
	})
}

// TestGrantRevokedBetweenAttemptsHoldsTheCall revokes it while the provider delays the
// call: the call is held, and runs once a human approves it.
func TestGrantRevokedBetweenAttemptsHoldsTheCall(t *testing.T) {
	t.Parallel()
	w, execution := newWorld(t), id()
	w.gate(highWrite)
	grant := w.grant(nil)
	answer := make(chan rig.Answer, 1)
	go func() { answer <- w.Runtime.Run(highWrite, m{"id": "later", "mode": modeLater}, execution) }()
	rig.Until(t, limit, "the provider was asked", func() bool { return len(w.bank.of("later")) == 1 })
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/grants/"+grant, nil).Status)
	e := refused(t, <-answer, http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Equal(t, "pending_approval", e.Error.Decision)
	require.Zero(t, w.bank.effects())
	require.Equal(t, http.StatusOK, w.approve(e.Error.ApprovalID).Status)
	w.awaitStatus(execution, "executed")
	require.Equal(t, 1, w.bank.effects())
}

func TestGrantOpensNoBlockAndNoQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant(nil)
	// No gate: a high-risk verb is blocked, and a grant is no gate.
	refused(t, w.Runtime.Run(highWrite, m{"id": "x", "amount": 1}, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	gate := w.gate(highWrite)
	block := w.policy(with(rule("large", "block", highWrite), m{"conditions": []m{{"field": "args.amount", "operator": "greater", "value": 10}}}))
	e := refused(t, w.Runtime.Run(highWrite, m{"id": "x", "amount": 11}, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Equal(t, "block", e.Error.Decision)
	require.Zero(t, w.bank.effects())
	// More approvers than the one who gave it.
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/policies/"+block, nil).Status)
	a := w.User.ReplacePolicy(gate, with(rule("gate", "require_approval", highWrite), m{"approval": m{"required": 2}}))
	require.Equal(t, http.StatusOK, a.Status)
	w.hold(highWrite, m{"id": "x", "amount": 1}, "")
	// The giver is none of the approvers.
	a = w.User.ReplacePolicy(gate, with(rule("gate", "require_approval", highWrite),
		m{"approval": m{"approvers": []m{{"type": "role", "value": "approver"}}}}))
	require.Equal(t, http.StatusOK, a.Status)
	w.hold(highWrite, m{"id": "x", "amount": 1}, "")
	require.Zero(t, w.bank.effects())
}

// TestGrantGivenLaterReleasesNoHeldCall: what a human was asked about, a human decides.
func TestGrantGivenLaterReleasesNoHeldCall(t *testing.T) {
	t.Parallel()
	w, _, held, execution := heldWorld(t)
	w.grant(nil)
	require.Equal(t, held, w.hold(highWrite, callArgs(), execution))
	require.Equal(t, "pending_approval", w.status(execution))
	require.Zero(t, w.bank.effects())
}

func TestGrantByIneligibleUserIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := w.gate(highWrite)
	require.NotEmpty(t, gate)
	member, _ := w.member("member")
	manager, _ := w.key("approvals:manage", "policies:manage")
	for _, c := range []*rig.Client{member, manager, w.Runtime} {
		a := c.Do(http.MethodPost, "/v1/grants", grantOf(nil))
		require.Equal(t, http.StatusForbidden, a.Status, "%s", a.Body)
	}
	for name, more := range map[string]m{
		"no uses": {"max_uses": 0}, "too many": {"max_uses": 1_000_000}, "no end": {"expires_at": nil}, "in the past": {"expires_at": in(-time.Hour)},
		"too long": {"expires_at": in(91 * 24 * time.Hour)}, "no reason": {"reason": ""}, "a glob": {"verb": slug + ":*"}, "a member nobody knows": {"for": "all"},
		"a condition that is none": {"conditions": []m{{"field": "args.amount", "operator": "roughly", "value": 1}}},
	} {
		raw, err := json.Marshal(grantOf(more))
		require.NoError(t, err)
		a := w.User.Do(http.MethodPost, "/v1/grants", raw)
		require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s", name, a.Body)
	}
	w.hold(highWrite, m{"id": "x"}, "")
}

// A grant for an agent or for a Map is not got by a word of the caller, and a grant without a Map is not
// for the calls of Maps.
func TestGrantForAnAgentOrAMapIsNotGotByAWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	var agent, ofMap, other struct{ ID string }
	w.User.Do(http.MethodPost, "/v1/agents", m{"name": "Trusted"}).Data(t, &agent)
	pay := func(name string) m {
		return m{"schema_version": "1", "name": name, "steps": []m{{"id": "pay", "type": "verb", "verb": highWrite, "args": m{"id": "${trigger_data.id}"}}}}
	}
	author, _ := w.member("admin") // who publishes a Map gives no grant for its calls
	author.Do(http.MethodPost, "/v1/maps?publish=true", pay("Pay")).Data(t, &ofMap)
	author.Do(http.MethodPost, "/v1/maps?publish=true", pay("Pay too")).Data(t, &other)
	trigger := func(id, ref string) string {
		a := w.Runtime.Do(http.MethodPost, "/v1/maps/"+id+"/trigger", m{"payload": m{"id": ref}, "metadata": m{"map_id": ofMap.ID}}, "Prefer: wait=20")
		var e struct{ Status string }
		a.Data(t, &e)
		return e.Status
	}

	refused(t, w.User.Do(http.MethodPost, "/v1/grants", grantOf(m{"agent_id": "a"})), http.StatusBadRequest, "VALIDATION_ERROR")
	forAgent := w.grant(m{"agent_id": agent.ID})
	a := w.send(m{"verb": highWrite, "args": m{"id": "spoof"}, "metadata": m{"agent_id": agent.ID, "agent": m{"id": agent.ID}}})
	require.Equal(t, http.StatusForbidden, a.Status, "%s", a.Body)
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/grants/"+forAgent, nil).Status)

	plain := w.grant(nil)
	require.Equal(t, "pending_approval", trigger(ofMap.ID, "plain"))
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/grants/"+plain, nil).Status)

	w.grant(m{"map_id": ofMap.ID})
	a = w.send(m{"verb": highWrite, "args": m{"id": "direct"}, "metadata": m{"map_id": ofMap.ID}})
	require.Equal(t, http.StatusForbidden, a.Status, "%s", a.Body)
	require.Equal(t, "pending_approval", trigger(other.ID, "other"))
	require.Zero(t, w.bank.effects())
	require.Equal(t, "completed", trigger(ofMap.ID, "yes"))
	require.Equal(t, 1, w.bank.effects())
}

// agent.id is an agent of the tenant's own, and null over HTTP, whatever the caller writes.
func TestPolicyOnAnAgentIsNotGotAroundByAWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	trusted := id()
	w.policy(with(rule("only one", "block", lowWrite), m{"conditions": []m{{"not": m{"field": "agent.id", "operator": "equals", "value": trusted}}}}))
	a := w.send(m{"verb": lowWrite, "args": m{"id": "x"}, "metadata": m{"agent_id": trusted, "agent": m{"id": trusted}}})
	require.Equal(t, http.StatusForbidden, a.Status, "%s", a.Body)
	require.Zero(t, w.bank.effects())

	var made struct{ Warnings []struct{ Code string } }
	w.User.Do(http.MethodPost, "/v1/policies", with(rule("by a word", "block", lowWrite), m{"conditions": []m{{"field": "agent_id", "operator": "not_equals", "value": trusted}}})).Data(t, &made)
	require.Len(t, made.Warnings, 1)
	require.Equal(t, "loosens_by_callers_word", made.Warnings[0].Code)
}
