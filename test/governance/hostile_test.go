package governance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// scenario is one way to try to get a high-risk write through without an approval of
// that very call. The attacker has a runtime key and the session of a member.
type scenario struct {
	name, sentence string
	// effects is how many high-risk writes there may be: those that were approved.
	effects int
	// permitted: the attacker has a permission for this. Then it is no way around an
	// approval, and the sentence says why.
	permitted bool
	try       func(h *hostile)
}

// hostile is a tenant whose high-risk verbs are all held.
type hostile struct {
	*world

	gateID string
	// joined is the member, made at first use.
	joined *rig.Client
}

// member is the user with no power whose session the attacker has.
func (h *hostile) member() *rig.Client {
	h.t.Helper()
	if h.joined == nil {
		h.joined, _ = h.world.member("member")
	}
	return h.joined
}

// args are those of the call that is to get through.
func (h *hostile) args() m { return m{"id": "prey", "amount": 1000} }

// run tries the call under an id.
func (h *hostile) run(execution string) rig.Answer {
	return h.Runtime.Run(highWrite, h.args(), execution)
}

// fails checks that an attempt was refused.
func (h *hostile) fails(answers ...rig.Answer) {
	h.t.Helper()
	for _, a := range answers {
		require.NoError(h.t, a.Err)
		require.GreaterOrEqual(h.t, a.Status, http.StatusBadRequest, "%s", a.Body)
		require.Less(h.t, a.Status, http.StatusInternalServerError, "%s", a.Body)
	}
}

// asks checks that the call waits for a human and returns the approval.
func (h *hostile) asks(a rig.Answer) string {
	h.t.Helper()
	e := refused(h.t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Equal(h.t, "pending_approval", e.Error.Decision)
	return e.Error.ApprovalID
}

// approved has the owner approve the call and waits until it was sent.
func (h *hostile) approved(execution string) {
	h.t.Helper()
	approvalID := h.asks(h.run(execution))
	require.Equal(h.t, http.StatusOK, h.approve(approvalID).Status)
	h.awaitStatus(execution, "executed")
}

// raw sends a run of the call with more members in its body.
func (h *hostile) raw(more string, headers ...string) rig.Answer {
	return h.send([]byte(`{"verb":"`+highWrite+`","args":{"id":"prey","amount":1000}`+more+`}`), headers...)
}

func scenarios() []scenario {
	var all []scenario
	for _, list := range [][]scenario{dryRunTricks(), memberTricks(), keyTricks(), replayTricks(), requestTricks(), tokenTricks(), timingTricks()} {
		all = append(all, list...)
	}
	return all
}

func TestHighRiskWriteNeverPassesWithoutApproval(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(scenarios()), 60)
	for i, s := range scenarios() {
		t.Run(fmt.Sprintf("%02d %s", i+1, s.name), func(t *testing.T) {
			t.Parallel()
			h := &hostile{world: newWorld(t)}
			h.gateID = h.policy(m{"name": "gate", "action": m{"type": "require_approval"}, "verbMatchers": []m{{"type": "risk_level", "value": "high"}}})
			h.permitted = s.permitted
			s.try(h)
			require.Empty(t, h.unapproved(), s.sentence)
			require.Equal(t, s.effects, h.highEffects(), s.sentence)
		})
	}
}

// highEffects counts the high-risk calls that the bank carried out.
func (w *world) highEffects() (n int) {
	for _, r := range w.bank.all() {
		if highRisk(r.verb) {
			n++
		}
	}
	return n
}

func dryRunTricks() []scenario {
	flag := func(name, more string) scenario {
		return scenario{
			name: "dry-run flag " + name, sentence: "A flag that is no boolean is refused, and never guessed at.",
			try: func(h *hostile) { h.fails(h.raw(more)) },
		}
	}
	return []scenario{
		flag("in quotes", `,"dryRun":"true"`),
		flag("as a number", `,"metadata":{"dryRun":1}`),
		flag("null", `,"dry_run":null`),
		flag("in an array", `,"metadata":{"dry_run":[true]}`),
		flag("misspelt at the top", `,"DryRun":false,"dryrun":true`),
		flag("that only looks like one", `,"metadata":{"dry":true}`),
		{name: "dry-run flag in other spellings in metadata", sentence: "Case, hyphens and underscores do not count.", try: func(h *hostile) {
			for _, name := range []string{"DRYRUN", "dryrun", "DRY-RUN", "Dry_Run"} {
				require.Contains(h.t, string(h.raw(`,"metadata":{"`+name+`":true}`).Body), `"intercepted":true`)
			}
		}},
		{name: "contradicting flags", sentence: "One that says dry run is enough, whatever the others say.", try: func(h *hostile) {
			require.Contains(h.t, string(h.raw(`,"dryRun":false,"metadata":{"dryRun":true}`).Body), `"intercepted":true`)
		}},
		{name: "a dry run and then the same id for real", sentence: "A dry run and a real run never share an id.", try: func(h *hostile) {
			succeeded(h.t, h.raw(`,"execution_id":"twice","dryRun":true`))
			refused(h.t, h.raw(`,"execution_id":"twice"`), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
		}},
		{name: "a dry run and then another id for real", sentence: "That a dry run was let through says nothing of the real one.", try: func(h *hostile) {
			succeeded(h.t, h.raw(`,"dryRun":true`))
			h.asks(h.run("real"))
		}},
		{name: "approving one's own dry run with the key", sentence: "A key never decides.", try: func(h *hostile) {
			approvalID := succeeded(h.t, h.raw(`,"dryRun":true`)).ApprovalID
			h.fails(h.Runtime.Decide(approvalID, "approve", nil))
		}},
		{name: "approving a dry run as a member", sentence: "A member may approve nothing that the rules do not name them for.", try: func(h *hostile) {
			approvalID := succeeded(h.t, h.raw(`,"dryRun":true`)).ApprovalID
			h.fails(h.member().Decide(approvalID, "approve", nil))
		}},
		{name: "a dry run of a harmless verb approved with edited arguments by a member", sentence: "Editing is deciding.", try: func(h *hostile) {
			approvalID := succeeded(h.t, h.send(m{"verb": lowWrite, "args": m{"id": "x"}, "dryRun": true})).ApprovalID
			h.fails(h.member().Decide(approvalID, "approve", m{"edited_args": h.args()}))
		}},
	}
}

func memberTricks() []scenario {
	try := func(name, sentence string, try func(h *hostile) rig.Answer) scenario {
		return scenario{name: "a member " + name, sentence: sentence, try: func(h *hostile) {
			held := h.asks(h.run("held"))
			h.fails(try(h))
			h.asks(h.run("again"))
			require.Equal(h.t, "pending", h.approval(held).Status)
		}}
	}
	pending := func(h *hostile) string { return h.asks(h.run("held")) } // a repeat: the same approval
	return []scenario{
		try("approves", "Only who is named in the rule may.", func(h *hostile) rig.Answer { return h.member().Decide(pending(h), "approve", nil) }),
		try("rejects", "Nor may they reject.", func(h *hostile) rig.Answer { return h.member().Decide(pending(h), "reject", nil) }),
		try("edits", "Nor edit.", func(h *hostile) rig.Answer {
			return h.member().Decide(pending(h), "approve", m{"edited_args": m{"id": "prey"}})
		}),
		try("gives a grant", "Grants are for approvers.", func(h *hostile) rig.Answer { return h.member().Do(http.MethodPost, "/v1/grants", grantOf(nil)) }),
		try("makes a policy", "Policies are for admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPost, "/v1/policies", rule("mine", "allow", highWrite))
		}),
		try("deletes the gate", "Policies are for admins.", func(h *hostile) rig.Answer { return h.member().Do(http.MethodDelete, "/v1/policies/"+h.gateID, nil) }),
		try("replaces the gate", "Policies are for admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPut, "/v1/policies/"+h.gateID, rule("gate", "allow", highWrite))
		}),
		try("invites an owner", "Users are for admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPost, "/v1/users", m{"email": rig.Address(), "role": "owner"})
		}),
		try("promotes himself", "Roles are for admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPatch, "/v1/users/"+h.memberID(), m{"role": "owner"})
		}),
		try("lowers the risk by an import", "Providers are for admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPost, "/v1/providers", h.importBody(lowered()))
		}),
		try("makes a key that may manage", "Keys are for admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPost, "/v1/api-keys", m{"name": "mine", "permissions": []string{"policies:manage"}})
		}),
		try("settles the held run as executed", "Only an unknown outcome is settled, by admins.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPost, "/v1/executions/held/resolve", m{"outcome": "executed", "reason": "so there"})
		}),
		try("cancels to free the id", "Cancelling is for approvers, and frees no id.", func(h *hostile) rig.Answer {
			return h.member().Do(http.MethodPost, "/v1/executions/held/cancel", nil)
		}),
		try("runs with their session", "Runs are made with keys.", func(h *hostile) rig.Answer { return h.member().Run(highWrite, h.args(), "session") }),
		try("decides in a batch", "Each item of a batch is refused for itself.", func(h *hostile) rig.Answer {
			a := h.member().Do(http.MethodPost, "/v1/approvals/batch", m{"decisions": []m{{"id": pending(h), "decision": "approve"}}})
			require.Contains(h.t, string(a.Body), "APPROVER_NOT_ELIGIBLE")
			return rig.Answer{Status: http.StatusForbidden}
		}),
	}
}

// memberID asks the service who the member is.
func (h *hostile) memberID() string {
	h.t.Helper()
	users, err := pages[struct{ ID, Role string }](h.User, "/v1/users?status=active")
	require.NoError(h.t, err)
	for _, u := range users {
		if u.Role == "member" {
			return u.ID
		}
	}
	require.FailNow(h.t, "no member")
	return ""
}

// lowered is the bank's document with its high-risk write declared harmless.
func lowered() map[string]any {
	paths := bankPaths()
	paths["/high_write"] = map[string]any{"post": operation("high_write", "low", "write", callProperties())}
	return paths
}

func keyTricks() []scenario {
	try := func(name, method, path string, body func(h *hostile) any) scenario {
		return scenario{name: "the key " + name, sentence: "A Runtime key runs, and manages nothing.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			path := strings.NewReplacer("GATE", h.gateID, "HELD", held).Replace(path)
			a := h.Runtime.Do(method, path, body(h))
			require.Contains(h.t, []int{http.StatusUnauthorized, http.StatusForbidden}, a.Status, "%s", a.Body)
			h.asks(h.run("again"))
			require.Equal(h.t, "pending", h.approval(held).Status)
		}}
	}
	none := func(*hostile) any { return nil }
	list := []scenario{
		try("makes a policy", http.MethodPost, "/v1/policies", func(*hostile) any { return rule("mine", "allow", highWrite) }),
		try("replaces the gate", http.MethodPut, "/v1/policies/GATE", func(*hostile) any { return rule("gate", "allow", highWrite) }),
		try("deletes the gate", http.MethodDelete, "/v1/policies/GATE", none),
		try("imports the provider again", http.MethodPost, "/v1/providers", func(h *hostile) any { return h.importBody(lowered()) }),
		try("gives a grant", http.MethodPost, "/v1/grants", func(*hostile) any { return grantOf(nil) }),
		try("approves", http.MethodPost, "/v1/approvals/HELD/approve", none),
		try("approves in a batch", http.MethodPost, "/v1/approvals/batch", func(*hostile) any { return m{"decisions": []m{{"id": "x", "decision": "approve"}}} }),
		try("settles the run", http.MethodPost, "/v1/executions/held/resolve", func(*hostile) any { return m{"outcome": "executed", "reason": "x"} }),
		try("makes another key", http.MethodPost, "/v1/api-keys", func(*hostile) any { return m{"name": "x", "permissions": []string{"policies:manage"}} }),
		try("invites a user", http.MethodPost, "/v1/users", func(*hostile) any { return m{"email": rig.Address(), "role": "owner"} }),
		try("changes what is masked", http.MethodPut, "/v1/governance/masking", func(*hostile) any { return m{"paths": []any{}} }),
		try("replaces the credential", http.MethodPost, "/v1/credentials", func(*hostile) any {
			return m{"provider": slug, "type": "bearer", "label": "x", "data": m{"token": "x"}}
		}),
	}
	return append(list, managerTricks()...)
}

// managerTricks are those of keys that hold a permission to manage.
func managerTricks() []scenario {
	return []scenario{
		{name: "a key that manages policies allows", sentence: "The strictest policy decides, so an allow beside the gate opens nothing.", try: func(h *hostile) {
			manager, _ := h.key("policies:manage")
			require.Equal(h.t, http.StatusCreated, manager.Do(http.MethodPost, "/v1/policies", with(rule("mine", "allow", highWrite), m{"priority": 1000000})).Status)
			h.asks(h.Runtime.Run(highWrite, h.args(), ""))
		}},
		{name: "a key that manages policies removes the gate", sentence: "Without a gate a high-risk verb is blocked, whatever allows it.", try: func(h *hostile) {
			manager, _ := h.key("policies:manage")
			require.Equal(h.t, http.StatusCreated, manager.Do(http.MethodPost, "/v1/policies", rule("mine", "allow", highWrite)).Status)
			held := h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, manager.Do(http.MethodDelete, "/v1/policies/"+h.gateID, nil).Status)
			refused(h.t, h.Runtime.Run(highWrite, h.args(), ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			h.superseded(held)
		}},
		{name: "a key that manages policies adds a gate that a member opens", sentence: "Every policy that holds a call needs its own approvals.", try: func(h *hostile) {
			manager, _ := h.key("policies:manage")
			mine := with(rule("mine", "require_approval", highWrite), m{"approval": m{"approvers": []m{{"type": "role", "value": "member"}}}, "priority": 1000000})
			require.Equal(h.t, http.StatusCreated, manager.Do(http.MethodPost, "/v1/policies", mine).Status)
			held := h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, h.member().Decide(held, "approve", nil).Status)
			require.Equal(h.t, "pending_approval", h.status("held"))
		}},
		{
			name: "a key that manages policies puts a member at the gate", effects: 1,
			sentence: "Permitted: who manages policies says who approves; the call still ran with an approval of its own.", try: func(h *hostile) {
				manager, _ := h.key("policies:manage")
				mine := with(rule("gate", "require_approval", highWrite), m{"approval": m{"approvers": []m{{"type": "role", "value": "member"}}}})
				require.Equal(h.t, http.StatusOK, manager.Do(http.MethodPut, "/v1/policies/"+h.gateID, mine).Status)
				held := h.asks(h.run("held"))
				require.Equal(h.t, http.StatusOK, h.member().Decide(held, "approve", nil).Status)
				h.awaitStatus("held", "executed")
			},
		},
		{name: "a key that manages providers lowers the risk", sentence: "A lower risk needs a user.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			manager, _ := h.key("providers:manage")
			needsUser(h.t, manager.Do(http.MethodPost, "/v1/providers", h.importBody(lowered())), "risk_level")
			require.Equal(h.t, "pending", h.approval(held).Status)
			h.asks(h.run("again"))
		}},
		{
			name: "an owner lowers the risk", effects: 1, permitted: true,
			sentence: "Permitted: a user says how risky a verb is, and a gate by risk level follows them.", try: func(h *hostile) {
				require.Equal(h.t, http.StatusOK, h.User.Do(http.MethodPost, "/v1/providers", h.importBody(lowered())).Status)
				succeeded(h.t, h.run("low-now"))
			},
		},
		{name: "an owner lowers the risk of a verb that is held by name", sentence: "A gate by name does not ask for the risk.", try: func(h *hostile) {
			h.policy(rule("by name", "require_approval", highWrite))
			require.Equal(h.t, http.StatusOK, h.User.Do(http.MethodPost, "/v1/providers", h.importBody(lowered())).Status)
			h.asks(h.run("low-now"))
		}},
		{name: "an owner lowers the risk of a call that waits", sentence: "A call that was held is released by a human alone.", try: func(h *hostile) {
			held := h.asks(h.run("held"))
			require.Equal(h.t, http.StatusOK, h.User.Do(http.MethodPost, "/v1/providers", h.importBody(lowered())).Status)
			rig.Until(h.t, limit, "the approval has fallen", func() bool { return h.approval(held).Status == "superseded" })
			h.awaitStatus("held", "pending_approval") // it asks again
		}},
		{name: "a key that manages approvals approves", sentence: "No permission has a key decide.", try: func(h *hostile) {
			manager, _ := h.key("approvals:manage")
			h.fails(manager.Decide(h.asks(h.run("held")), "approve", nil))
		}},
	}
}
