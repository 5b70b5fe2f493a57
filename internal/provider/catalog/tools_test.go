package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
)

func TestToolVerbsAreThoseOfTheTenantsProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	long := newVerb("refund", "orders", verb.RiskHigh)
	long.Description = strings.Repeat("ä", 1000)
	r.replace(t, r.tenant, provider("shop", "bearer"), long, newVerb("cancel", "orders", verb.RiskMedium))
	r.replace(t, r.other, provider("foreign", credential.None), newVerb("leak", "orders", verb.RiskLow))
	r.enable(t, r.tenant, "crm", "open")
	r.connect(t, r.tenant, "crm", "active", "")
	r.connect(t, r.tenant, "shop", "revoked", "")

	providers, err := r.ToolProviders(t.Context(), r.tenant)
	require.NoError(t, err)
	var said []string
	for _, p := range providers {
		said = append(said, fmt.Sprintf("%s %t %t", p.Slug, p.Shared, p.Connected))
	}
	require.Equal(t, []string{"crm true true", "open true true", "shop false false"}, said)

	listed := func(providers []catalog.ToolProvider, most int) (list []string) {
		t.Helper()
		verbs, err := r.ToolVerbs(t.Context(), r.tenant, providers, most)
		require.NoError(t, err)
		for _, v := range verbs {
			require.LessOrEqual(t, len([]rune(v.Description)), 400)
			m, err := r.meta(t, r.tenant, v.Name)
			require.NoError(t, err)
			require.Equal(t, []any{m.Risk, m.Operation, m.Idempotency, m.SchemaHash, m.Shared}, []any{v.Risk, v.Operation, v.Idempotency, v.SchemaHash, v.Shared})
			list = append(list, fmt.Sprintf("%s %t", v.Name, v.Connected))
		}
		return list
	}
	all := []string{"crm:export true", "crm:find true", "crm:merge true", "open:status true", "shop:cancel false", "shop:refund false"}
	require.Equal(t, all, listed(providers, 100), "those of connected providers first")
	require.Equal(t, all[:5], listed(providers, 5))
	require.Equal(t, all[4:], listed(providers[2:], 100))
	require.Empty(t, listed(nil, 100))
	require.Empty(t, listed([]catalog.ToolProvider{{Slug: "foreign"}, {Slug: "shop", Shared: true}}, 100))

	// Each change makes another state.
	r.clock = r.clock.Add(time.Second)
	r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("cancel", "orders", verb.RiskMedium))
	now, err := r.ToolProviders(t.Context(), r.tenant)
	require.NoError(t, err)
	require.NotEqual(t, providers, now)
	require.Equal(t, providers[:2], now[:2])
}
