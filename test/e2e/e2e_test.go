// Package e2e drives the whole service from outside: HTTP in at one end, a provider
// and the databases at the other. It runs processes and links none of them.
package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/sandbox"
	"agentruntime/test/rig"
)

func TestSandboxOrderRepeatedIsCached(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		shop, err := sandbox.New(sandbox.Config{APIKey: "k"})
		require.NoError(t, err)
		base := rig.Serve(t, shop)
		tenant.Connect(t, "shop", base, sandbox.Document(base), "api_key", map[string]string{"key": "k"})
		order := map[string]any{"customer_id": "cus_1001", "amount": 1999, "currency": "eur"}
		first := requireRun(t, tenant.Runtime.Run("shop:create_order", order, "order-1"))
		require.Equal(t, "executed", first.FenceStatus)
		second := requireRun(t, tenant.Runtime.Run("shop:create_order", order, "order-1"))
		require.Equal(t, "cached", second.FenceStatus)
		require.JSONEq(t, string(first.Result), string(second.Result))
	})
}
