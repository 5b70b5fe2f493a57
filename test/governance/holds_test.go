package governance

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// heldWorld has every high-risk verb held, and one call waiting.
func heldWorld(t *testing.T) (w *world, policyID, approvalID, execution string) {
	t.Helper()
	w, execution = newWorld(t), id()
	policyID = w.policy(m{"name": "gate", "action": m{"type": "require_approval"}, "verbMatchers": []m{{"type": "risk_level", "value": "high"}}})
	return w, policyID, w.hold(highWrite, callArgs(), execution), execution
}

func callArgs() m { return m{"id": "call-1", "amount": 12.50, "note": "as asked"} }

// superseded approves what can no longer be, and finds that nothing was sent for it.
func (w *world) superseded(approvalID string) {
	w.t.Helper()
	if a := w.approve(approvalID); a.Status != http.StatusOK {
		refused(w.t, a, http.StatusConflict, "APPROVAL_NOT_PENDING")
	}
	w.awaitApproval(approvalID, "superseded")
	require.Zero(w.t, w.bank.effects())
}

func TestApprovedCallIsSentOnceAsShown(t *testing.T) {
	t.Parallel()
	w, _, held, execution := heldWorld(t)
	require.Equal(t, "pending_approval", w.status(execution))
	// The same id with other arguments is the same call, and stays what it was.
	require.Equal(t, held, w.hold(highWrite, m{"id": "call-1", "amount": 999999}, execution))
	refused(t, w.send(m{"verb": highWrite, "args": m{"id": "call-1", "amount": 999999}}, "Idempotency-Key: "+execution),
		http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
	refused(t, w.Runtime.Run(highOther, callArgs(), execution), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
	require.Zero(t, w.bank.effects())

	require.Equal(t, http.StatusOK, w.approve(held).Status)
	w.awaitStatus(execution, "executed")
	require.Len(t, w.bank.all(), 1)
	require.JSONEq(t, `{"id":"call-1","amount":12.5,"note":"as asked"}`, w.bank.all()[0].body)
	refused(t, w.approve(held), http.StatusConflict, "APPROVAL_NOT_PENDING")
	refused(t, w.reject(held), http.StatusConflict, "APPROVAL_NOT_PENDING")
	require.Equal(t, "cached", succeeded(t, w.Runtime.Run(highWrite, callArgs(), execution)).FenceStatus)
	require.Len(t, w.bank.all(), 1)
	require.Equal(t, []string{"run.held", "approval.approved", "run.allowed", "run.executed"}, actions(w.audit("execution_id="+execution)))
}

func TestPolicyChangeSupersedesApproval(t *testing.T) {
	t.Parallel()
	gate := m{"name": "gate", "action": m{"type": "require_approval"}, "verbMatchers": []m{{"type": "risk_level", "value": "high"}}}
	for _, c := range []struct {
		name   string
		change func(w *world, policyID string) rig.Answer
		// again: a new approval holds the call; otherwise it is blocked.
		again bool
	}{
		{"another rule for approvers", func(w *world, p string) rig.Answer {
			return w.User.ReplacePolicy(p, with(gate, m{"approval": m{"required": 2}}))
		}, true},
		{"a description", func(w *world, p string) rig.Answer {
			return w.User.ReplacePolicy(p, with(gate, m{"description": "changed"}))
		}, true},
		{"one more gate", func(w *world, _ string) rig.Answer {
			return w.User.Do(http.MethodPost, "/v1/policies", rule("second", "require_approval", highWrite))
		}, true},
		{"a block", func(w *world, _ string) rig.Answer {
			return w.User.Do(http.MethodPost, "/v1/policies", rule("no", "block", highWrite))
		}, false},
		{"another action", func(w *world, p string) rig.Answer {
			return w.User.ReplacePolicy(p, with(gate, m{"action": m{"type": "allow"}}))
		}, false},
		{"the gate is only watched", func(w *world, p string) rig.Answer {
			return w.User.ReplacePolicy(p, with(gate, m{"mode": "shadow"}))
		}, false},
		{"the gate is disabled", func(w *world, p string) rig.Answer {
			return w.User.ReplacePolicy(p, with(gate, m{"enabled": false}))
		}, false},
		{"the gate is deleted", func(w *world, p string) rig.Answer {
			return w.User.Do(http.MethodDelete, "/v1/policies/"+p, nil)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, policyID, held, execution := heldWorld(t)
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, c.change(w, policyID).Status)
			w.superseded(held)
			if !c.again {
				w.awaitStatus(execution, "blocked")
				return
			}
			rig.Until(t, limit, "the call is held again", func() bool { return w.approval(held).SupersededBy != nil })
			require.Equal(t, "pending_approval", w.status(execution))
			require.Equal(t, "pending", w.approval(*w.approval(held).SupersededBy).Status)
			require.Zero(t, w.bank.effects())
		})
	}
}

func TestProviderChangeSupersedesApproval(t *testing.T) {
	t.Parallel()
	other := func(id, path string, change func(op map[string]any)) map[string]any {
		paths := bankPaths()
		op := operation(id, "high", "write", callProperties())
		change(op)
		delete(paths, "/"+id)
		paths[path] = map[string]any{"post": op}
		return paths
	}
	for _, c := range []struct {
		name   string
		change func(w *world)
	}{
		{"an argument more", func(w *world) {
			properties := callProperties()
			properties["more"] = typed("string")
			paths := bankPaths()
			paths["/high_write"] = map[string]any{"post": operation("high_write", "high", "write", properties)}
			w.reimport(paths)
		}},
		{"an argument that is required", func(w *world) {
			w.reimport(other("high_write", "/high_write", func(op map[string]any) {
				schema := op["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
				schema["required"] = []string{"mode"}
			}))
		}},
		{"another path", func(w *world) {
			w.reimport(other("high_write", "/high_other_path", func(map[string]any) {}))
		}},
		{"another method", func(w *world) {
			paths := bankPaths()
			op := operation("high_write", "high", "write", callProperties())
			paths["/high_write"] = map[string]any{"put": op}
			w.reimport(paths)
		}},
		{"another address", func(w *world) {
			elsewhere := newBank()
			w.t.Cleanup(elsewhere.srv.Close)
			body := w.importBody(bankPaths())
			body["base_url"] = elsewhere.srv.URL
			a := w.User.Do(http.MethodPost, "/v1/providers", body)
			require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
			w.t.Cleanup(func() { require.Zero(w.t, elsewhere.effects()) })
		}},
		{"another place for the credential", func(w *world) {
			body := w.importBody(bankPaths())
			body["auth"] = m{"type": "none"}
			a := w.User.Do(http.MethodPost, "/v1/providers", body)
			require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
		}},
		{"another address, by PATCH", func(w *world) {
			elsewhere := newBank()
			w.t.Cleanup(elsewhere.srv.Close)
			a := w.User.Do(http.MethodPatch, "/v1/providers/"+slug, m{"base_url": elsewhere.srv.URL})
			require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
			w.t.Cleanup(func() { require.Zero(w.t, elsewhere.effects()) })
		}},
		{"another place for the credential, by PATCH", func(w *world) {
			a := w.User.Do(http.MethodPatch, "/v1/providers/"+slug, m{"auth": m{"type": "api_key", "in": "header", "name": "X-Key"}})
			require.Equal(w.t, http.StatusOK, a.Status, "%s", a.Body)
		}},
		{"the verb is gone", func(w *world) {
			paths := bankPaths()
			delete(paths, "/high_write")
			w.reimport(paths)
		}},
		{"another credential", func(w *world) {
			a := w.User.Do(http.MethodPost, "/v1/credentials", m{"provider": slug, "type": "bearer", "label": "new", "data": m{"token": "another"}})
			require.Equal(w.t, http.StatusCreated, a.Status, "%s", a.Body)
		}},
		{"no credential", func(w *world) { w.deleteCredentials() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _, held, _ := heldWorld(t)
			c.change(w)
			w.superseded(held)
		})
	}
}

func (w *world) deleteCredentials() {
	w.t.Helper()
	list, err := pages[struct{ ID string }](w.User, "/v1/credentials?provider="+slug)
	require.NoError(w.t, err)
	require.NotEmpty(w.t, list)
	for _, c := range list {
		require.Equal(w.t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/credentials/"+c.ID, nil).Status)
	}
}

func TestHeldCallEndsWithItsKeyOrCancel(t *testing.T) {
	t.Parallel()
	t.Run("its key is revoked", func(t *testing.T) {
		t.Parallel()
		w, _, held, _ := heldWorld(t)
		require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/api-keys/"+w.RuntimeKeyID, nil).Status)
		if a := w.approve(held); a.Status != http.StatusOK {
			refused(t, a, http.StatusConflict, "APPROVAL_NOT_PENDING")
		}
		rig.Until(t, limit, "the approval is closed", func() bool {
			return w.approval(held).Status != "pending" && w.approval(held).Outcome != nil && *w.approval(held).Outcome == "failed"
		})
		require.Zero(t, w.bank.effects())
	})
	t.Run("the execution is cancelled", func(t *testing.T) {
		t.Parallel()
		w, _, held, execution := heldWorld(t)
		require.Equal(t, http.StatusOK, w.Runtime.Do(http.MethodPost, "/v1/executions/"+execution+"/cancel", nil).Status)
		require.Equal(t, "cancelled", w.approval(held).Status)
		refused(t, w.approve(held), http.StatusConflict, "APPROVAL_NOT_PENDING")
		refused(t, w.Runtime.Run(highWrite, callArgs(), execution), http.StatusConflict, "CONFLICT")
		require.Zero(t, w.bank.effects())
	})
	t.Run("nobody decides in time", func(t *testing.T) {
		t.Parallel()
		w, execution := newWorld(t), id()
		w.policy(with(rule("gate", "require_approval", highWrite), m{"approval": m{"timeout": 1}}))
		held := w.hold(highWrite, callArgs(), execution)
		w.awaitApproval(held, "expired")
		refused(t, w.approve(held), http.StatusConflict, "APPROVAL_NOT_PENDING")
		require.Equal(t, "expired", w.status(execution))
		e := refused(t, w.Runtime.Run(highWrite, callArgs(), execution), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, []string{"block", "expired", held}, []string{e.Error.Decision, e.Error.Status, e.Error.ApprovalID}, "it is final")
		require.Zero(t, w.bank.effects())
	})
	t.Run("nobody decides after owners were asked", func(t *testing.T) {
		t.Parallel()
		w, execution := newWorld(t), id()
		w.policy(with(rule("gate", "require_approval", highWrite), m{"approval": m{"timeout": 5, "on_timeout": "escalate", "approvers": []m{{"type": "role", "value": "approver"}}}}))
		held := w.hold(highWrite, callArgs(), execution)
		refused(t, w.approve(held), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
		w.awaitApproval(held, "expired")
		require.Equal(t, []string{"run.held", "approval.escalated", "approval.expired"}, actions(w.audit("execution_id="+execution)))
		require.Zero(t, w.bank.effects())
	})
}

var requestID = regexp.MustCompile(`"requestId":"[^"]*"`)

func TestDecisionByIneligibleCallerIsRefused(t *testing.T) {
	t.Parallel()
	w, _, held, execution := heldWorld(t)
	stranger := newWorld(t)
	member, _ := w.member("member")
	manager, _ := w.key("approvals:manage", "policies:manage", "providers:manage", "audit:manage")
	for _, what := range []string{"approve", "reject"} {
		refused(t, w.Runtime.Decide(held, what, nil), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
		refused(t, manager.Decide(held, what, nil), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
		refused(t, member.Decide(held, what, nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
		unknown := stranger.User.Decide("appr_00000000-0000-7000-8000-000000000000", what, nil)
		theirs := stranger.User.Decide(held, what, nil)
		refused(t, theirs, http.StatusNotFound, "APPROVAL_NOT_FOUND")
		require.Equal(t, requestID.ReplaceAll(unknown.Body, nil), requestID.ReplaceAll(theirs.Body, nil))
		require.Equal(t, unknown.Status, theirs.Status)
	}
	batch := m{"decisions": []m{{"id": held, "decision": "approve"}}}
	refused(t, w.Runtime.Do(http.MethodPost, "/v1/approvals/batch", batch), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	refused(t, manager.Do(http.MethodPost, "/v1/approvals/batch", batch), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	for _, c := range []*rig.Client{member, stranger.User} {
		a := c.Do(http.MethodPost, "/v1/approvals/batch", batch)
		require.Equal(t, http.StatusOK, a.Status)
		require.Contains(t, string(a.Body), `"success":false`)
	}
	require.Equal(t, "pending_approval", w.status(execution))
	require.Empty(t, w.approval(held).Decisions)

	approver, approverID := w.member("approver")
	require.Equal(t, http.StatusOK, approver.Decide(held, "approve", m{"reason": "fine"}).Status)
	w.awaitStatus(execution, "executed")
	a := w.approval(held)
	require.Len(t, a.Decisions, 1)
	require.Equal(t, approverID, *a.Decisions[0].UserID)
	require.Equal(t, 1, w.bank.effects())
}

func TestApprovalReleasesItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	w, _, held, execution := heldWorld(t)
	other := id()
	w.hold(highWrite, with(callArgs(), m{"id": "call-2"}), other)
	require.Equal(t, http.StatusOK, w.approve(held).Status)
	w.awaitStatus(execution, "executed")
	require.Equal(t, "pending_approval", w.status(other))
	require.Equal(t, 1, w.bank.effects())
	// The same call under another id is another call.
	w.hold(highWrite, callArgs(), id())
	require.Equal(t, 1, w.bank.effects())
}

func TestApproverRemovedDoesNotCount(t *testing.T) {
	t.Parallel()
	w, execution := newWorld(t), id()
	w.policy(with(rule("gate", "require_approval", highWrite), m{"approval": m{"required": 2}}))
	held := w.hold(highWrite, callArgs(), execution)
	leaver, leaverID := w.member("approver")
	stays, _ := w.member("approver")
	require.Equal(t, http.StatusOK, leaver.Decide(held, "approve", nil).Status)
	refused(t, leaver.Decide(held, "approve", nil), http.StatusConflict, "CONFLICT")
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/users/"+leaverID, nil).Status)
	require.Equal(t, http.StatusUnauthorized, leaver.Decide(held, "approve", nil).Status)
	require.Equal(t, http.StatusOK, stays.Decide(held, "approve", nil).Status)
	require.Equal(t, "pending_approval", w.status(execution))
	require.Zero(t, w.bank.effects())
	require.Equal(t, http.StatusOK, w.approve(held).Status)
	w.awaitStatus(execution, "executed")
	require.Equal(t, 1, w.bank.effects())
}

func TestEditAsksAgainWithoutItsEditor(t *testing.T) {
	t.Parallel()
	for _, self := range []bool{false, true} {
		t.Run(map[bool]string{false: "by default", true: "unless the policy lets them"}[self], func(t *testing.T) {
			t.Parallel()
			w, execution := newWorld(t), id()
			w.policy(with(rule("gate", "require_approval", highWrite), m{"approval": m{"self_approval": self}}))
			held := w.hold(highWrite, callArgs(), execution)
			editor, _ := w.member("approver")
			edited := with(callArgs(), m{"amount": 5})
			var next approval
			editor.Decide(held, "approve", m{"edited_args": edited}).Data(t, &next)
			require.NotEqual(t, held, next.ID)
			require.Equal(t, "superseded", w.approval(held).Status)
			refused(t, w.approve(held), http.StatusConflict, "APPROVAL_NOT_PENDING")
			if !self {
				refused(t, editor.Decide(next.ID, "approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
				require.Zero(t, w.bank.effects())
				require.Equal(t, http.StatusOK, w.approve(next.ID).Status)
			}
			w.awaitStatus(execution, "executed")
			require.Len(t, w.bank.all(), 1)
			require.JSONEq(t, `{"id":"call-1","amount":5,"note":"as asked"}`, w.bank.all()[0].body)
		})
	}
}

// The editor of a call may not release it, and may take it back.
func TestEditorWithdrawsTheirEdit(t *testing.T) {
	t.Parallel()
	w, execution := newWorld(t), id()
	w.gate(highWrite)
	held := w.hold(highWrite, callArgs(), execution)
	editor, editorID := w.member("approver")
	member, _ := w.member("member")
	var next approval
	editor.Decide(held, "approve", m{"edited_args": with(callArgs(), m{"amount": 5})}).Data(t, &next)
	refused(t, editor.Decide(next.ID, "approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
	refused(t, member.Decide(next.ID, "reject", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
	a := editor.Decide(next.ID, "reject", m{"reason": "a slip of mine"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	w.awaitStatus(execution, "rejected")

	ended := w.approval(next.ID)
	require.Equal(t, "rejected", ended.Status)
	require.Len(t, ended.Decisions, 1)
	require.Equal(t, editorID, *ended.Decisions[0].UserID)
	require.Equal(t, "reject", ended.Decisions[0].Decision)
	require.Equal(t, "superseded", w.approval(held).Status, "the call as it was is not held again")
	for _, of := range []string{held, next.ID} {
		refused(t, w.approve(of), http.StatusConflict, "APPROVAL_NOT_PENDING")
	}
	e := refused(t, w.Runtime.Run(highWrite, callArgs(), execution), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Equal(t, "block", e.Error.Decision)
	require.Contains(t, e.Error.Reason, "a slip of mine")
	require.Zero(t, w.bank.effects())
}

func TestEditToBlockedOrMalformedCallIsRefused(t *testing.T) {
	t.Parallel()
	w, _, held, execution := heldWorld(t)
	w.policy(with(rule("large", "block", highWrite), m{"conditions": []m{{"field": "args.amount", "operator": "greater", "value": 1000}}}))
	refused(t, w.User.Decide(held, "approve", []byte(`{"edited_args":{"id":"x","amount":1001}}`)), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	refused(t, w.User.Decide(held, "approve", []byte(`{"edited_args":{"id":"x"}}`)), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	refused(t, w.User.Decide(held, "approve", []byte(`{"edited_args":{"id":"x","amount":1,"more":1}}`)), http.StatusUnprocessableEntity, "INVALID_ARGS")
	refused(t, w.User.Decide(held, "approve", []byte(`{"edited_args":{"id":"x","amount":1,"amount":2}}`)), http.StatusBadRequest, "INVALID_JSON")
	refused(t, w.User.Decide(held, "approve", []byte(`{"edited_args":[1]}`)), http.StatusBadRequest, "VALIDATION_ERROR")
	refused(t, w.User.Decide(held, "approve", []byte(`{"edited_arguments":{"id":"x"}}`)), http.StatusBadRequest, "VALIDATION_ERROR")
	require.Equal(t, "pending_approval", w.status(execution))
	require.Zero(t, w.bank.effects())
}

// TestPolicyUnreadableBlocks puts a document into the database that no version of the
// service can have written.
func TestPolicyUnreadableBlocks(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"no policy at all":    `[1, 2]`,
		"an unknown action":   `{"action": {"type": "permit"}}`,
		"an unknown matcher":  `{"action": {"type": "allow"}, "verbMatchers": [{"type": "colour", "value": "red"}]}`,
		"an unknown operator": `{"action": {"type": "allow"}, "conditions": [{"field": "args.amount", "operator": "roughly", "value": 1}]}`,
		"an unknown field":    `{"action": {"type": "allow"}, "conditions": [{"field": "moon.phase", "operator": "equals", "value": 1}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, policyID, held, execution := heldWorld(t)
			db, err := pgx.Connect(t.Context(), w.s.DatabaseURL)
			require.NoError(t, err)
			defer db.Close(t.Context())
			_, err = db.Exec(t.Context(), `UPDATE policies SET document = $1 WHERE id = $2`, document, policyID)
			require.NoError(t, err)
			_, err = db.Exec(t.Context(), `UPDATE policy_sets s SET version = s.version + 1 FROM policies p WHERE p.id = $1 AND p.tenant_id = s.tenant_id`, policyID)
			require.NoError(t, err)
			for _, verb := range []string{lowRead, mediumWrite, highWrite} {
				require.Equal(t, "block", w.evaluate(verb, m{}).Decision, verb)
				refused(t, w.Runtime.Run(verb, callArgs(), ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			}
			w.superseded(held)
			w.awaitStatus(execution, "blocked")
			require.Zero(t, w.bank.effects())
		})
	}
}

// TestApprovalBeforeLaterChangeDoesNotCount lets the provider delay the approved
// call, and changes the policies before it is repeated.
func TestApprovalBeforeLaterChangeDoesNotCount(t *testing.T) {
	t.Parallel()
	w, policyID, _, _ := heldWorld(t)
	execution := id()
	held := w.hold(highWrite, m{"id": "later", "mode": modeLater}, execution)
	require.Equal(t, http.StatusOK, w.approve(held).Status)
	rig.Until(t, limit, "the provider was asked", func() bool { return len(w.bank.of("later")) == 1 })
	require.Equal(t, http.StatusOK, w.User.Do(http.MethodDelete, "/v1/policies/"+policyID, nil).Status)
	w.awaitStatus(execution, "blocked")
	require.Zero(t, w.bank.effects())
	require.Equal(t, "superseded", w.approval(held).Status)
}

// TestEditorOfSupersededEditStillDoesNotCount: a change of the policies makes a
// new approval of the edited call, and its editor stays the editor.
func TestEditorOfSupersededEditStillDoesNotCount(t *testing.T) {
	t.Parallel()
	w, policyID, held, execution := heldWorld(t)
	editor, _ := w.member("approver")
	var next approval
	editor.Decide(held, "approve", m{"edited_args": with(callArgs(), m{"amount": 5})}).Data(t, &next)
	a := w.User.ReplacePolicy(policyID, rule("gate", "require_approval", highWrite))
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	w.superseded(next.ID)
	rig.Until(t, limit, "the edited call is held again", func() bool { return w.approval(next.ID).SupersededBy != nil })
	renewed := *w.approval(next.ID).SupersededBy
	refused(t, editor.Decide(renewed, "approve", nil), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE")
	require.Zero(t, w.bank.effects())
	require.Equal(t, http.StatusOK, w.approve(renewed).Status)
	w.awaitStatus(execution, "executed")
	require.Len(t, w.bank.all(), 1)
}

// TestPoliciesEachNeedTheirOwnApprovers: one vote counts for two policies only if
// both accept it.
func TestPoliciesEachNeedTheirOwnApprovers(t *testing.T) {
	t.Parallel()
	w, execution := newWorld(t), id()
	member, memberID := w.member("member")
	w.policy(with(rule("by role", "require_approval", highWrite), m{"approval": m{"approvers": []m{{"type": "role", "value": "admin"}}}}))
	w.policy(with(rule("by name", "require_approval", highWrite), m{"approval": m{"approvers": []m{{"type": "user", "value": memberID}}}}))
	held := w.hold(highWrite, callArgs(), execution)
	refused(t, w.approve(held), http.StatusForbidden, "APPROVER_NOT_ELIGIBLE") // owners are not named
	require.Equal(t, http.StatusOK, member.Decide(held, "approve", nil).Status)
	require.Equal(t, "pending_approval", w.status(execution))
	require.Zero(t, w.bank.effects())
	admin, _ := w.member("admin")
	require.Equal(t, http.StatusOK, admin.Decide(held, "approve", nil).Status)
	w.awaitStatus(execution, "executed")
	require.Equal(t, 1, w.bank.effects())
}
