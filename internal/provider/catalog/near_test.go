package catalog_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
)

func TestNearVerbsAreThoseOfTheTenantsCatalog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offer(t)
	verbs := func(names ...string) []verb.Definition {
		var out []verb.Definition
		for _, name := range names {
			out = append(out, newVerb(name, "orders", verb.RiskLow))
		}
		return out
	}
	r.replace(t, r.tenant, provider("shop", "bearer"), verbs("create_refund", "list_refunds", "get_refund", "list_orders", "list_order", "list_ordered")...)
	r.replace(t, r.tenant, provider("open", "bearer"), verbs("ticket")...) // hides the platform's
	r.replace(t, r.other, provider("shop", "bearer"), verbs("create_refunds")...)
	r.replace(t, r.other, provider("crn", "bearer"), verbs("find")...)
	r.enable(t, r.tenant, "crm", "open")
	for name, want := range map[string][]string{
		"shop:create_refunds": {"shop:create_refund"},
		"shop:refund_create":  {"shop:create_refund"},
		"shop:list_orderes":   {"shop:list_ordered", "shop:list_orders", "shop:list_order"},
		"shops:get_refund":    {"shop:get_refund"},
		"crm:fnd":             {"crm:find"},
		"crn:find":            {"crm:find"},
		"open:statu":          nil,
		"shop:pay":            nil,
		"mail:create_refund":  nil,
		"nope:nope":           nil,
	} {
		asked, err := verb.Parse(name)
		require.NoError(t, err)
		near, err := r.Near(t.Context(), r.tenant, asked)
		require.NoError(t, err)
		var got []string
		for _, n := range near.Verbs {
			got = append(got, n.String())
		}
		require.Equal(t, want, got, name)
	}
	near, err := r.Near(t.Context(), uuid.New(), verb.Name{Provider: "shop", Verb: "create_refunds"})
	require.NoError(t, err)
	require.Empty(t, near.Verbs)
	require.Equal(t, " There is no provider shop in it.", near.Text())

	for name, want := range map[string]string{
		"shop:create_refunds": " Did you mean shop:create_refund?",
		"shopify:get_refund":  " There is no provider shopify in it. Did you mean shop:get_refund?",
		"shopify:get_refunds": " There is no provider shopify in it. Did you mean shop:get_refund or shop:list_refunds?",
		"shopify:pay":         " There is no provider shopify in it. Did you mean the provider shop?",
		"nope:nope":           " There is no provider nope in it.",
		"shop:pay":            "",
	} {
		asked, err := verb.Parse(name)
		require.NoError(t, err)
		near, err := r.Near(t.Context(), r.tenant, asked)
		require.NoError(t, err)
		require.Equal(t, want, near.Text(), name)
	}
}

// The reading of grown tables by this statement has a bound in the tests of the database.
func TestNearVerbsOfALargeProviderAreFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var many []verb.Definition
	for i := range 2000 {
		many = append(many, newVerb(fmt.Sprintf("operation_%04d_of_many", i), "d", verb.RiskLow))
	}
	r.replace(t, r.tenant, provider("large", "bearer"), many...)
	near, err := r.Near(t.Context(), r.tenant, verb.Name{Provider: "large", Verb: "operation_1234_of_many_"})
	require.NoError(t, err)
	require.Len(t, near.Verbs, 3)
	require.Equal(t, "operation_1234_of_many", near.Verbs[0].Verb)
}
