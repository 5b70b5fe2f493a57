package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
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
	require.NoError(t, c.DeleteProvider(t.Context(), by(r.tenant), "mail", nil))
	require.NoError(t, imports("shop", larger))
}

// A document counts with the bytes that it has, not with those that are stored of it.
func TestQuotaOfDocumentBytesCountsAllProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.limited(t, map[string]int64{"document_bytes": 100})
	imports := func(tenant uuid.UUID, slug string, size int) error {
		p := provider(slug, "bearer")
		document := []byte(strings.Repeat(" ", size))
		p.DocumentHash = catalog.HashOf(document)
		_, err := c.Import(t.Context(), by(tenant), catalog.Import{Provider: p, Source: &catalog.Source{Document: document}})
		return err
	}
	require.NoError(t, imports(r.tenant, "shop", 60))
	require.NoError(t, imports(r.tenant, "mail", 40))
	require.NoError(t, imports(r.tenant, "shop", 59), "what is replaced does not count")
	err := imports(r.tenant, "shop", 61)
	requireCode(t, err, fault.CodeQuotaExceeded)
	require.Contains(t, err.Error(), "quota document_bytes: at most 100 ")
	d, err := c.Document(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.EqualValues(t, 59, d.Size, "the refused import has replaced nothing")
	require.NoError(t, imports(r.other, "shop", 100), "another tenant has a quota of its own")
	require.NoError(t, c.DeleteProvider(t.Context(), by(r.tenant), "mail", nil))
	require.NoError(t, imports(r.tenant, "shop", 100))
	_, err = c.Replace(t.Context(), by(r.tenant), provider("shop", "bearer"), nil)
	require.NoError(t, err)
	_, err = c.Document(t.Context(), r.tenant, "shop")
	requireCode(t, err, fault.CodeDocumentNotFound)
	require.NoError(t, imports(r.tenant, "mail", 100), "a provider without a document counts nothing")
}

// What is removed is not forgotten for what is removed later, so the import that would make it
// too much is refused, and no removal.
func TestQuotaOfCatalogEntriesCountsWhatWasRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.limited(t, map[string]int64{"catalog_entries": 6})
	imports := func(slug string, names ...string) error {
		var verbs []verb.Definition
		for _, name := range names {
			verbs = append(verbs, newVerb(name, "d", verb.RiskHigh))
		}
		_, err := c.Replace(t.Context(), by(r.tenant), provider(slug, "bearer"), verbs)
		return err
	}
	require.NoError(t, imports("shop", "a", "b"))
	require.NoError(t, imports("mail", "c", "d"))
	require.NoError(t, c.DeleteProvider(t.Context(), by(r.tenant), "mail", nil))
	require.NoError(t, imports("shop", "a"), "a removal adds nothing")
	err := imports("shop", "a", "e")
	requireCode(t, err, fault.CodeQuotaExceeded)
	require.Contains(t, err.Error(), "quota catalog_entries: at most 6 ")
	requireCode(t, imports("third"), fault.CodeQuotaExceeded)
	require.NoError(t, imports("shop", "a", "b"), "it is there again instead")
	require.NoError(t, imports("mail", "c", "d"))
	require.NoError(t, c.DeleteProvider(t.Context(), by(r.tenant), "shop", nil))
	_, err = c.Replace(t.Context(), by(r.other), provider("shop", "bearer"), []verb.Definition{newVerb("a", "d", verb.RiskHigh)})
	require.NoError(t, err, "another tenant has a quota of its own")
	var removed int
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT count(*) FROM removed_verbs WHERE tenant_id = $1", r.tenant).Scan(&removed))
	require.Equal(t, 2, removed)
}

// A key can import very many operations that a user then removes. They push nothing out.
func TestWhatIsRemovedLaterHasNothingForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("a", "d", verb.RiskHigh))
	r.replace(t, r.tenant, provider("shop", "bearer"))
	_, err := r.admin.Exec(t.Context(), `INSERT INTO removed_verbs SELECT tenant_id, provider, route || n, name || n, domain, risk_level, operation_type, idempotency, removed_at + interval '1 hour', form
		FROM removed_verbs, generate_series(1, 20000) n WHERE tenant_id = $1`, r.tenant)
	require.NoError(t, err)
	r.replace(t, r.tenant, provider("shop", "bearer"), newVerb("b", "d", verb.RiskHigh))
	r.replace(t, r.tenant, provider("shop", "bearer"))
	var kept bool
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM removed_verbs WHERE tenant_id = $1 AND name = 'a')", r.tenant).Scan(&kept))
	require.True(t, kept)
}
