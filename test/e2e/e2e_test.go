// Package e2e drives the whole service from outside.
package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/sandbox"
	"agentruntime/test/rig"
)

func TestTheSandboxFromOutside(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() *rig.Stack{
		"one process": func() *rig.Stack { return rig.Dev(t) },
		"split":       func() *rig.Stack { return rig.Split(t, rig.SplitOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start()
			tenant := s.NewTenant("owner@example.com")
			shop, err := sandbox.New(sandbox.Config{APIKey: "k"})
			require.NoError(t, err)
			base := rig.Serve(t, shop)
			tenant.Connect(t, "shop", base, sandbox.Document(base), "api_key", map[string]string{"key": "k"})
			var first, second rig.RunData
			a := tenant.Runtime.Run("shop:create_order", map[string]any{"customer_id": "cus_1001", "amount": 1999, "currency": "eur"}, "order-1")
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			a.Data(t, &first)
			require.Equal(t, "executed", first.FenceStatus)
			tenant.Runtime.Run("shop:create_order", map[string]any{"customer_id": "cus_1001", "amount": 1999, "currency": "eur"}, "order-1").Data(t, &second)
			require.Equal(t, "cached", second.FenceStatus)
			require.JSONEq(t, string(first.Result), string(second.Result))
		})
	}
}
