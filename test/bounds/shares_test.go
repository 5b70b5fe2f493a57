package bounds

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// The provider of one tenant does not answer, on more calls than a worker has places. Other
// tenants' calls and decisions go on, and so do the tenant's calls to other providers.
func TestProviderThatHangsStopsNobodyElse(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	silent := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	a, b := connected(t), connected(t)
	a.Connect(t, "silent", silent, document(1), "bearer", m{"token": "bank-token"})
	t.Cleanup(func() { close(goOn) })
	for i, answer := range together(400, func(i int) rig.Answer {
		return a.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run",
			m{"verb": "silent:pay_1", "args": m{"n": i}, "expires_in": 20}, "Prefer: wait=0")
	}) {
		status(t, answer, http.StatusAccepted)
		_ = i
	}
	for i := range 10 {
		status(t, b.Runtime.Run("bank:pay_1", m{"n": i}, fmt.Sprintf("b-%d", i)), http.StatusOK)
		status(t, a.Runtime.Run("bank:pay_1", m{"n": i}, fmt.Sprintf("a-%d", i)), http.StatusOK)
	}
	b.User.NewPolicy(t, rig.RequireApproval("people decide", "bank:pay_1", nil))
	held := b.Runtime.Run("bank:pay_1", m{"n": 1}, "held")
	status(t, held, http.StatusForbidden)
	status(t, b.User.Decide(held.Envelope(t).Error.ApprovalID, "approve", nil), http.StatusOK)
	again := b.Runtime.Run("bank:pay_1", m{"n": 1}, "held")
	status(t, again, http.StatusOK)
	var done rig.RunData
	again.Data(t, &done)
	require.Equal(t, "executed", done.Status)
}
