package catalog_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// withAnswer is a verb whose answer has this schema.
func withAnswer(name, answer string) verb.Definition {
	v := newVerb(name, "d", verb.RiskMedium)
	v.Answer = json.RawMessage(answer)
	return v
}

// answer is the schema of what a verb answers to the tenant; "" where none is known.
func (r *rig) answer(t *testing.T, tenant uuid.UUID, provider, name string) string {
	t.Helper()
	raw, err := r.Answer(t.Context(), tenant, verb.Name{Provider: provider, Verb: name})
	require.NoError(t, err)
	return string(raw)
}

func TestAnswersOfVerbsAreReplacedByTheNextImport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := withAnswer("pay", `{"type":"object"}`)
	r.replace(t, r.tenant, provider("shop", "bearer"), first, withAnswer("refund", `{"type":"array"}`), newVerb("look", "d", verb.RiskLow))
	require.JSONEq(t, `{"type":"object"}`, r.answer(t, r.tenant, "shop", "pay"))
	require.JSONEq(t, `{"type":"array"}`, r.answer(t, r.tenant, "shop", "refund"))
	require.Empty(t, r.answer(t, r.tenant, "shop", "look"), "none is known")
	require.Empty(t, r.answer(t, r.tenant, "shop", "none"))
	require.Empty(t, r.answer(t, r.other, "shop", "pay"), "another tenant sees nothing of it")
	before, err := r.meta(t, r.tenant, verb.Name{Provider: "shop", Verb: "pay"})
	require.NoError(t, err)

	r.replace(t, r.tenant, provider("shop", "bearer"), withAnswer("pay", `{"type":"string"}`), newVerb("refund", "d", verb.RiskMedium))
	require.JSONEq(t, `{"type":"string"}`, r.answer(t, r.tenant, "shop", "pay"))
	require.Empty(t, r.answer(t, r.tenant, "shop", "refund"))
	after, err := r.meta(t, r.tenant, verb.Name{Provider: "shop", Verb: "pay"})
	require.NoError(t, err)
	require.Equal(t, before.SchemaHash, after.SchemaHash, "what a call is bound to does not know the answer")
	require.Equal(t, before.PlanHash, after.PlanHash)

	require.NoError(t, r.DeleteProvider(t.Context(), by(r.tenant), "shop", nil))
	require.Empty(t, r.answer(t, r.tenant, "shop", "pay"))
	var left int
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT count(*) FROM verb_answers").Scan(&left))
	require.Zero(t, left)
}

func TestAnswersOfThePlatformsVerbsAreSeenWhereEnabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.operator(t)
	store := func(verbs ...verb.Definition) {
		_, err := p.Import(t.Context(), catalog.Import{Provider: provider("crm", "none"), Verbs: verbs}, true)
		require.NoError(t, err)
	}
	store(withAnswer("find", `{"type":"array"}`), newVerb("merge", "d", verb.RiskMedium))
	require.Empty(t, r.answer(t, r.tenant, "crm", "find"))
	r.enable(t, r.tenant, "crm")
	require.JSONEq(t, `{"type":"array"}`, r.answer(t, r.tenant, "crm", "find"))
	require.Empty(t, r.answer(t, r.tenant, "crm", "merge"))
	store(withAnswer("find", `{"type":"object"}`))
	require.JSONEq(t, `{"type":"object"}`, r.answer(t, r.tenant, "crm", "find"))
	// The tenant's own provider hides it, whatever is known of its answers.
	r.replace(t, r.tenant, provider("crm", "none"), newVerb("find", "d", verb.RiskLow))
	require.Empty(t, r.answer(t, r.tenant, "crm", "find"))
	require.NoError(t, p.Delete(t.Context(), "crm"))
	var left int
	require.NoError(t, r.admin.QueryRow(t.Context(), "SELECT count(*) FROM platform_verb_answers").Scan(&left))
	require.Zero(t, left)
}

func TestQuotaOfVerbBytesCountsAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := withAnswer("pay", `{"type":"object"}`)
	size := int64(len(v.Schema) + len(v.Plan) + len(v.Answer))
	_, err := r.limited(t, map[string]int64{"verb_bytes": size}).Replace(t.Context(), by(r.tenant), provider("shop", "bearer"), []verb.Definition{v})
	require.NoError(t, err)
	_, err = r.limited(t, map[string]int64{"verb_bytes": size - 1}).Replace(t.Context(), by(r.other), provider("shop", "bearer"), []verb.Definition{v})
	requireCode(t, err, fault.CodeQuotaExceeded)
	require.Empty(t, r.answer(t, r.other, "shop", "pay"))
}
