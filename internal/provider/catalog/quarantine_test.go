package catalog_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// payVerbs are verbs of one argument of the type.
func payVerbs(n int, kind string) []verb.Definition {
	list := make([]verb.Definition, n)
	for i := range list {
		list[i] = verb.Definition{
			Name: fmt.Sprintf("pay_%04d", i), Domain: "shop", Risk: verb.RiskLow, Operation: verb.Write, Idempotency: verb.IdempotencyNone,
			Schema: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"` + kind + `"},"note":{"type":"string"}}}`),
			Plan:   json.RawMessage(fmt.Sprintf(`{"method":"POST","path":"/pay/%d"}`, i)),
		}
	}
	return list
}

// naming makes so many policies, of which each names a verb.
func (r *rig) naming(tb testing.TB, n int) {
	tb.Helper()
	_, err := r.admin.Exec(tb.Context(), `
		INSERT INTO policies (id, tenant_id, version, name, description, enabled, mode, priority, action, document, created_by, created_at, updated_by, updated_at)
		SELECT gen_random_uuid(), $1, 1, 'p' || n, '', true, 'enforce', 0, 'notify', json_build_object('verbMatchers',
		       json_build_array(json_build_object('type', 'verb', 'value', 'shop:pay_' || lpad(n::text, 4, '0')))), 'user:x', now(), 'user:x', now()
		  FROM generate_series(0, $2 - 1) n`, r.tenant, n)
	require.NoError(tb, err)
}

var payShop = catalog.Provider{Slug: "shop", Name: "Shop", Domain: "shop", BaseURL: "https://shop.test", AuthType: "none", Auth: json.RawMessage(`{"type":"none"}`)}

// A run that was judged before the import is stopped at the gate, which compares this time.
func TestImportThatQuarantinesChangesTheTimeThatTheGateCompares(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.naming(t, 1)
	pay := verb.Name{Provider: "shop", Verb: "pay_0000"}
	r.replace(t, r.tenant, payShop, payVerbs(2, "number")...)
	judged, err := r.meta(t, r.tenant, pay)
	require.NoError(t, err)
	require.Nil(t, judged.Quarantine)
	r.clock = r.clock.Add(time.Second)
	p := r.replace(t, r.tenant, payShop, payVerbs(2, "string")...)
	require.Equal(t, 1, p.Notes.QuarantinedTotal, "nothing names the other")
	now, err := r.meta(t, r.tenant, pay)
	require.NoError(t, err)
	require.NotEqual(t, judged.ProviderAt, now.ProviderAt)
	require.Equal(t, "the argument /amount was number and is string", now.Quarantine.Changes[0].String())
	require.Equal(t, r.clock, now.Quarantine.Since)

	// An import that changes nothing more leaves the quarantine as it was.
	r.clock = r.clock.Add(time.Second)
	r.replace(t, r.tenant, payShop, payVerbs(2, "string")...)
	again, err := r.meta(t, r.tenant, pay)
	require.NoError(t, err)
	require.Equal(t, now.Quarantine, again.Quarantine)
	var kept int
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT count(*) FROM accepted_verbs").Scan(&kept))
	require.Equal(t, 1, kept)
	_, err = r.Accept(t.Context(), by(r.tenant), pay, "")
	require.NoError(t, err)
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT count(*) FROM accepted_verbs").Scan(&kept))
	require.Zero(t, kept, "what the verb is now is its accepted form")
	_, err = r.Accept(t.Context(), by(r.other), pay, "")
	require.True(t, fault.HasCode(err, fault.CodeProviderNotFound), "%v", err)
}

// A provider lists the verbs that are quarantined now, whatever its stored report says.
func TestProviderListsTheVerbsThatAreQuarantinedNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const named = 205
	r.naming(t, named)
	r.replace(t, r.tenant, payShop, payVerbs(named+1, "number")...)
	imported := r.replace(t, r.tenant, payShop, payVerbs(named+1, "string")...)
	require.Equal(t, named, imported.Notes.QuarantinedTotal)
	require.Len(t, imported.Notes.Quarantined, 200)
	shown, err := r.Provider(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, imported.Notes.Quarantined, shown.Notes.Quarantined)
	require.Equal(t, named, shown.Notes.QuarantinedTotal)

	_, err = r.Accept(t.Context(), by(r.tenant), verb.Name{Provider: "shop", Verb: "pay_0000"}, "")
	require.NoError(t, err)
	shown, err = r.Provider(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, named-1, shown.Notes.QuarantinedTotal)
	require.Equal(t, "pay_0001", shown.Notes.Quarantined[0].Verb)

	// Reports of earlier versions have the list, and a mark of a later one may have another form.
	_, err = r.admin.Exec(t.Context(), `UPDATE providers SET report = '{"quarantined":[{"verb":"pay_0000"}],"quarantined_total":1}'`)
	require.NoError(t, err)
	_, err = r.admin.Exec(t.Context(), `UPDATE verbs SET quarantine = CASE name WHEN 'pay_0001' THEN '{"changes":7}'::json END`)
	require.NoError(t, err)
	shown, err = r.Provider(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, []catalog.Quarantined{{Verb: "pay_0001"}}, shown.Notes.Quarantined)
	require.Equal(t, 1, shown.Notes.QuarantinedTotal)
}

// The accepted forms that are kept of removed verbs count in a quota, so that they have a bound.
func TestAcceptedFormsCountInAQuota(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.naming(t, 20)
	verbs := payVerbs(20, "number")
	bytes := 0
	for _, v := range verbs {
		bytes += len(v.Schema) + len(v.Plan)
	}
	c := r.limited(t, map[string]int64{"verb_bytes": int64(bytes)})
	_, err := c.Replace(t.Context(), by(r.tenant), payShop, verbs)
	require.NoError(t, err)
	require.NoError(t, c.DeleteProvider(t.Context(), by(r.tenant), "shop", nil))
	other := payShop
	other.Slug = "other"
	_, err = c.Replace(t.Context(), by(r.tenant), other, verbs)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
	_, err = c.Replace(t.Context(), by(r.tenant), payShop, verbs)
	require.NoError(t, err, "they have their names again")
}

// An import of 5,000 verbs that all change, of which 2,000 policies name 2,000.
func BenchmarkImportOfNamedVerbs(b *testing.B) {
	for _, policies := range []int{0, 2000} {
		b.Run(fmt.Sprint(policies, "_policies"), func(b *testing.B) {
			r := newRig(b)
			r.naming(b, policies)
			r.replace(b, r.tenant, payShop, payVerbs(5000, "number")...)
			for i := 0; b.Loop(); i++ {
				p := r.replace(b, r.tenant, payShop, payVerbs(5000, []string{"string", "integer"}[i%2])...)
				require.Equal(b, policies, p.Notes.QuarantinedTotal)
			}
		})
	}
}
