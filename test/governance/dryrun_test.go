package governance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

// preview is the request of a dry run, as it is shown.
type preview struct {
	Method  string          `json:"method"`
	URL     string          `json:"url"`
	Headers http.Header     `json:"headers"`
	Body    json.RawMessage `json:"body"`
}

func (w *world) dryRun(verb string, args any, execution string) (approvalID string, shown preview) {
	w.t.Helper()
	a := w.send(m{"verb": verb, "args": args, "execution_id": execution, "metadata": m{"dryRun": true}})
	d := succeeded(w.t, a)
	require.Equal(w.t, "intercepted", d.Status)
	for _, part := range []string{`"dry_run":true`, `"intercepted":true`, `"governance_status":"approved"`} {
		require.Contains(w.t, string(a.Body), part)
	}
	require.NoError(w.t, json.Unmarshal(d.Result, &shown))
	require.NotContains(w.t, string(a.Body), "bank-token")
	return d.ApprovalID, shown
}

func TestDryRunOfReadRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.send(m{"verb": lowRead, "args": m{"id": "x"}, "dryRun": true})
	require.Equal(t, "executed", succeeded(t, a).Status)
	require.Contains(t, string(a.Body), `"intercepted":false`)
	require.Equal(t, 1, w.bank.effects())
}

func TestDryRunApprovedSendsWhatItShowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(slug + ":high_*")
	for _, c := range []struct {
		name, verb string
		args       m
	}{
		{"low", lowWrite, m{"id": "low", "amount": json.Number("9007199254740993.10"), "order": m{"total": 1}}},
		{"medium", mediumWrite, m{"id": "medium", "note": "ünïcode \u2028 \"quoted\""}},
		{"high", highWrite, m{"id": "high", "items": []m{{"amount": 1}, {"amount": 2}}}},
		{"in path, query and header", lowPath, m{"id": "a b/c", "q": "d&e", "X-Note": "f", "note": "g"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			own := *w
			w, execution := &own, id()
			w.t = t
			approvalID, shown := w.dryRun(c.verb, c.args, execution)
			got := func() (list []request) {
				for _, r := range w.bank.all() {
					if strings.HasPrefix(c.verb, r.verb) {
						list = append(list, r)
					}
				}
				return list
			}
			require.Empty(t, got())
			cached := func(status string) {
				d := succeeded(t, w.send(m{"verb": c.verb, "args": c.args, "execution_id": execution, "dryRun": true}))
				require.Equal(t, "cached", d.FenceStatus)
				require.Equal(t, status, d.Status)
			}
			cached("intercepted")
			require.Equal(t, "dry_run", w.approval(approvalID).Kind)
			require.Equal(t, http.StatusOK, w.approve(approvalID).Status)
			w.awaitStatus(execution, "executed")
			cached("executed")
			refused(t, w.approve(approvalID), http.StatusConflict, "APPROVAL_NOT_PENDING")

			require.Len(t, got(), 1)
			sent := got()[0]
			require.Equal(t, shown.Method, sent.method)
			require.Equal(t, shown.URL, w.bank.srv.URL+sent.path)
			require.Equal(t, oracle.Canonical(shown.Body), oracle.Canonical([]byte(sent.body)))
			for name, values := range shown.Headers {
				require.Equal(t, values, sent.header.Values(name), name)
			}
			require.Equal(t, "Bearer bank-token", sent.header.Get("Authorization"))
		})
	}
}

func TestDryRunRejectedSupersededOrBlockedIsNotSent(t *testing.T) {
	t.Parallel()
	t.Run("rejecting discards it", func(t *testing.T) {
		t.Parallel()
		w, execution := newWorld(t), id()
		approvalID, _ := w.dryRun(mediumWrite, m{"id": "x"}, execution)
		require.Equal(t, http.StatusOK, w.reject(approvalID).Status)
		require.Equal(t, "intercepted", w.status(execution))
		refused(t, w.approve(approvalID), http.StatusConflict, "APPROVAL_NOT_PENDING")
		d := succeeded(t, w.send(m{"verb": mediumWrite, "args": m{"id": "x"}, "execution_id": execution, "dryRun": true}))
		require.Equal(t, "cached", d.FenceStatus)
		require.Zero(t, w.bank.effects())
	})
	t.Run("a change supersedes it", func(t *testing.T) {
		t.Parallel()
		w, execution := newWorld(t), id()
		approvalID, _ := w.dryRun(mediumWrite, m{"id": "x"}, execution)
		paths := bankPaths()
		paths["/elsewhere"] = paths["/medium_write"]
		delete(paths, "/medium_write")
		w.reimport(paths)
		w.superseded(approvalID)
	})
	t.Run("a block that came later blocks it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		approvalID, _ := w.dryRun(mediumWrite, m{"id": "x"}, id())
		w.policy(rule("no", "block", mediumWrite))
		w.superseded(approvalID)
	})
	t.Run("what is blocked is blocked in a dry run", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.policy(rule("no", "block", mediumWrite))
		for _, verb := range []string{mediumWrite, highWrite} {
			e := refused(t, w.send(m{"verb": verb, "args": m{"id": "x"}, "dryRun": true}), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			require.Equal(t, "block", e.Error.Decision)
		}
		require.Zero(t, w.bank.effects())
	})
	t.Run("an edited one is asked about again", func(t *testing.T) {
		t.Parallel()
		w, execution := newWorld(t), id()
		approvalID, _ := w.dryRun(mediumWrite, m{"id": "x", "amount": 1}, execution)
		var next approval
		w.User.Decide(approvalID, "approve", m{"edited_args": m{"id": "x", "amount": 2}}).Data(t, &next)
		require.NotEqual(t, approvalID, next.ID)
		require.Zero(t, w.bank.effects())
		other, _ := w.member("approver")
		require.Equal(t, http.StatusOK, other.Decide(next.ID, "approve", nil).Status)
		w.awaitStatus(execution, "executed")
		require.Len(t, w.bank.all(), 1)
		require.JSONEq(t, `{"id":"x","amount":2}`, w.bank.all()[0].body)
	})
}
