package catalog_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/record/quota"
)

// limited is the rig's catalog with limits of its own.
func (r *rig) limited(t *testing.T, most map[string]int64) *catalog.Catalog {
	t.Helper()
	limits, err := quota.New(most)
	require.NoError(t, err)
	c, err := catalog.New(catalog.Deps{DB: r.db.Pool, Quotas: limits})
	require.NoError(t, err)
	return c
}

func TestQuotaOfVerbBytesCountsAllProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := newVerb("pay", "d", verb.RiskMedium), newVerb("refund", "d", verb.RiskMedium)
	c := r.limited(t, map[string]int64{"verb_bytes": int64(len(first.Schema) + len(first.Plan) + len(second.Schema) + len(second.Plan))})
	imports := func(slug string, verbs ...verb.Definition) error {
		_, err := c.Replace(t.Context(), by(r.tenant), provider(slug, "bearer"), verbs)
		return err
	}
	require.NoError(t, imports("shop", first))
	require.NoError(t, imports("mail", second))
	require.NoError(t, imports("shop", first), "what is replaced does not count")
	larger := first
	larger.Plan = slices.Concat(first.Plan, []byte(" "))
	err := imports("shop", larger)
	requireCode(t, err, fault.CodeQuotaExceeded)
	require.Contains(t, err.Error(), "quota verb_bytes: at most ")
	_, err = c.Replace(t.Context(), by(r.other), provider("shop", "bearer"), []verb.Definition{larger})
	require.NoError(t, err, "another tenant has a quota of its own")
	require.NoError(t, c.DeleteProvider(t.Context(), by(r.tenant), "mail"))
	require.NoError(t, imports("shop", larger))
}
