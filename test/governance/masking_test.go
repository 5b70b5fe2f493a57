package governance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// secrets are values that only the provider may see, by the argument that has them.
func secrets(n int) map[string]string {
	s := map[string]string{}
	for _, name := range []string{"door", "diagnosis", "memo", "inner", "memo2"} {
		s[name] = fmt.Sprintf("hidden-%s-%d", name, n)
	}
	s["card"] = "4111 1111 1111 1111"
	s["card2"] = "5500005555555559"
	return s
}

// TestSensitiveArgumentsAreMaskedEverywhere puts a secret into every sensitive place of a
// call, makes the call in every way, and reads everything that shows it.
func TestSensitiveArgumentsAreMaskedEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.User.Do(http.MethodPut, "/v1/governance/masking", m{"paths": []m{{"verb": secretWrite, "path": "args.memo"}, {"verb": secretWrite, "path": "args.nested.memo"}}})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	w.policy(rule("gate", "require_approval", secretWrite))
	w.policy(with(rule("no", "block", secretWrite), m{"conditions": []m{
		{"field": "args.amount", "operator": "greater", "value": 100}, {"field": "args.door", "operator": "not_equals", "value": "policy-hidden-door"},
	}}))

	var shown []string
	note := func(a rig.Answer) rig.Answer { shown = append(shown, string(a.Body)); return a }
	s := secrets(1)
	args := func(amount any) m {
		return m{
			"id": "x", "amount": amount, "door": s["door"], "diagnosis": s["diagnosis"], "memo": s["memo"], "note": "pay with " + s["card"] + " or " + s["card2"],
			"nested": m{"inner": s["inner"], "memo": s["memo2"]},
		}
	}
	evaluate := func(amount any) {
		note(w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", m{"verb": secretWrite, "args": args(amount)}))
	}
	evaluate(1)
	evaluate(101)
	evaluate("no number")
	run := func(execution string, amount any, more m) rig.Answer {
		return note(w.send(with(m{"verb": secretWrite, "args": args(amount), "execution_id": execution}, more)))
	}
	run("blocked", 101, nil)
	refused(t, run("invalid", "no number", nil), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	refused(t, run("refused", 1, m{"args": with(args(1), m{"more": "x"})}), http.StatusUnprocessableEntity, "INVALID_ARGS")
	held := refused(t, run("held", 1, nil), http.StatusForbidden, "GOVERNANCE_BLOCKED").Error.ApprovalID
	run("held", 2, nil) // other arguments under the same id
	intercepted := succeeded(t, run("dry", 1, m{"dryRun": true})).ApprovalID
	rejected := refused(t, run("rejected", 1, nil), http.StatusForbidden, "GOVERNANCE_BLOCKED").Error.ApprovalID
	note(w.reject(rejected))
	note(w.User.Decide(held, "approve", m{"edited_args": args(3)}))
	approver, _ := w.member("approver")
	var pending []approval
	w.User.Do(http.MethodGet, "/v1/approvals?status=pending", nil).Data(t, &pending)
	for _, p := range pending {
		note(approver.Decide(p.ID, "approve", m{"reason": "fine"}))
	}
	require.Len(t, pending, 2)
	w.awaitStatus("held", "executed")
	w.awaitStatus("dry", "executed")
	run("held", 3, nil)
	// The provider has them, whole.
	require.Len(t, w.bank.all(), 2)
	for _, r := range w.bank.all() {
		for _, value := range s {
			require.Contains(t, r.body, value)
		}
	}

	paths := []string{
		"/v1/approvals", "/v1/approvals/" + held, "/v1/approvals/" + intercepted, "/v1/approvals/" + rejected, "/v1/audit?limit=100", "/v1/audit/export",
		"/v1/audit/export?format=csv", "/v1/executions", "/v1/policies", "/v1/governance/masking",
	}
	for _, p := range pending {
		paths = append(paths, "/v1/approvals/"+p.ID)
	}
	for _, execution := range []string{"blocked", "invalid", "refused", "held", "dry", "rejected"} {
		paths = append(paths, "/v1/executions/"+execution)
	}
	for _, path := range paths {
		a := note(w.User.Do(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, a.Status, "%s: %s", path, a.Body)
		if path == "/v1/policies" {
			shown = shown[:len(shown)-1] // it is the tenant's own text
		}
	}
	for _, text := range shown {
		for name, value := range s {
			require.NotContains(t, text, value, name)
		}
		require.NotContains(t, text, "policy-hidden-door")
		require.NotContains(t, text, "bank-token")
		require.NotContains(t, text, "4111111111111111")
	}
	require.Contains(t, strings.Join(shown, ""), "masked")
	require.NotContains(t, w.s.Logs(), s["door"])
}

// TestMaskingChangeActsOnLaterRecords: no record that was written before is changed.
func TestMaskingChangeActsOnLaterRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	first := w.hold(highWrite, m{"id": "a", "note": "plain-before"}, "first")
	a := w.User.Do(http.MethodPut, "/v1/governance/masking", m{"paths": []m{{"verb": "*", "path": "args.note"}}})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	second := w.hold(highWrite, m{"id": "b", "note": "plain-after"}, "second")
	require.Contains(t, string(w.approval(first).Args), "plain-before")
	require.NotContains(t, string(w.approval(second).Args), "plain-after")
	require.NotContains(t, string(w.approval(second).Request), "plain-after")
	for _, r := range w.audit("execution_id=second") {
		require.NotContains(t, string(r.Input), "plain-after")
	}
}
