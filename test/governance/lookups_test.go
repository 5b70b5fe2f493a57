package governance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// pendingOnly is the policy of docs/use/policies.md about the status of an order.
func pendingOnly(t *testing.T) m {
	t.Helper()
	return retailPolicies(t)["Only pending orders change"]
}

// shopOf connects a shop to a tenant of its own.
func shopOf(t *testing.T) (*world, *retail) {
	t.Helper()
	w, shop := emptyWorld(t, sharedDev().For(t)), newRetail(t)
	w.Connect(t, "retail", shop.srv.URL, bankDocument(retailPaths()), "bearer", map[string]string{"token": "retail-token"})
	return w, shop
}

func (w *world) cancels(order string, more m) rig.Answer {
	w.t.Helper()
	return w.send(with(m{"verb": "retail:cancel_pending_order", "args": m{"order_id": order, "reason": "x"}, "execution_id": uuid.NewString()}, more))
}

// What a look-up comes to is seen by what the provider gets.
func TestLookupsFromOutside(t *testing.T) {
	t.Parallel()
	w, shop := shopOf(t)
	shop.orders["#LARGE"] = `{"status":"pending","note":"` + strings.Repeat("x", 3<<20) + `"}`
	shop.orders["#HUGE"] = `{"status":"pending","note":"` + strings.Repeat("x", 5<<20) + `"}`
	shop.orders["#TEXT"] = `{"status":"` + strings.Repeat("x", 1<<20) + `"}`
	shop.orders["#BROKEN"] = `<html>`
	id := w.policy(pendingOnly(t))
	for order, says := range map[string]string{
		"#W0000001": "", "#LARGE": "", "#HUGE": "lookup: it failed", "#TEXT": "lookup: its answer is too large", "#BROKEN": "lookup: it failed",
		"#NONE": "lookup: its provider refused it", "#W0000005": "lookup: the answer lacks it", "#HANGS": "lookup: no answer in time",
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			a := w.cancels(order, nil)
			if says == "" {
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
				return
			}
			require.Contains(t, refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED").Error.Message, says)
		})
	}
	t.Cleanup(func() {
		require.Equal(t, 2, shop.count("cancel_pending_order"))
		require.Equal(t, 8, shop.count("get_order_details"), "one for each run")
		a := w.User.Do(http.MethodGet, "/v1/audit?action=run.looked_up&limit=100", nil)
		require.Equal(t, 8, strings.Count(string(a.Body), id), "each record names the policy")
		require.NotContains(t, string(a.Body), "xxxx")
		require.NotContains(t, string(a.Body), "#HUGE", "no values")
	})
}

func TestLookupsInDryRunsEvaluationsAndOtherTenants(t *testing.T) {
	t.Parallel()
	w, shop := shopOf(t)
	w.policy(pendingOnly(t))
	require.Equal(t, http.StatusOK, w.cancels("#W0000001", m{"dryRun": true}).Status)
	require.Equal(t, 1, shop.count("get_order_details"), "reads run in a dry run")
	refused(t, w.cancels("#W0000002", m{"dryRun": true}), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Zero(t, shop.count("cancel_pending_order"))

	e := w.evaluate("retail:cancel_pending_order", m{"order_id": "#W0000001"})
	require.Equal(t, "block", e.Decision)
	require.Contains(t, e.Reason, "lookup: not_run")
	require.Equal(t, 2, shop.count("get_order_details"))

	// Another tenant's policy reads that tenant's shop.
	other, theirs := shopOf(t)
	other.policy(pendingOnly(t))
	theirs.orders["#W0000002"] = `{"status":"pending"}`
	require.Equal(t, http.StatusOK, other.cancels("#W0000002", nil).Status)
	require.Equal(t, 1, theirs.count("get_order_details"))
	require.Equal(t, 2, shop.count("get_order_details"))
}

// A write, and a verb of high risk, is no look-up.
func TestLookupsThatDoNotRead(t *testing.T) {
	t.Parallel()
	w, _ := shopOf(t)
	p := pendingOnly(t)
	p["lookups"] = []m{{"name": "order", "verb": "retail:cancel_pending_order", "args": m{}}}
	a := w.User.Do(http.MethodPost, "/v1/policies", p)
	e := refused(t, a, http.StatusBadRequest, "VALIDATION_ERROR")
	require.Contains(t, e.Error.Message, "/lookups/0/verb")
}
