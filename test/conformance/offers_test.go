//go:build conformance

package conformance

import (
	"net/http"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// offers enables and disables a provider of the platform, which the operator stores first.
func (j *journey) offers(database string) {
	pool, err := db.Open(j.t.Context(), db.Config{URL: database})
	require.NoError(j.t, err)
	defer pool.Close()
	platform, err := catalog.NewPlatform(catalog.Deps{DB: pool})
	require.NoError(j.t, err)
	_, err = platform.Import(j.t.Context(), catalog.Import{
		Provider: catalog.Provider{Slug: "offered", Name: "Offered", Domain: "d", BaseURL: "https://api.example.com", AuthType: "none", Auth: []byte(`{"type":"none"}`)},
		Verbs: []verb.Definition{{
			Name: "find", Domain: "d", Risk: verb.RiskLow, Operation: verb.Read, Idempotency: verb.IdempotencyIntrinsic,
			Schema: []byte(`{"type":"object"}`), Plan: []byte(`{"kind":"http","method":"GET","path":"/find"}`),
		}},
	}, false)
	require.NoError(j.t, err)

	const one, none = "/v1/providers/offered", "/v1/providers/none"
	j.get(j.user, 200, "/v1/providers?enabled=false")
	j.get(j.user, 400, "/v1/providers?enabled=perhaps")
	j.get(j.user, 200, one)
	j.refused(j.user, 409, "CONFLICT", http.MethodGet, one+"/verbs", nil)
	j.refused(j.key, 404, "VERB_NOT_FOUND", http.MethodPost, "/v1/runtime/actions/run", object{"verb": "offered:find", "args": object{}})
	j.refused(j.key, 404, "VERB_NOT_FOUND", http.MethodGet, "/v1/runtime/actions/catalog/offered:find", nil)
	for _, choice := range []string{"/enable", "/disable"} {
		j.call(j.user, 200, http.MethodPost, one+choice, nil)
		j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, one+choice, nil)
		j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodPost, none+choice, nil)
	}
	j.refused(j.user, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPatch, one, object{"name": "x"})
	j.refused(j.user, 403, "INSUFFICIENT_PERMISSIONS", http.MethodDelete, one, nil)
	j.refused(j.user, 404, "PROVIDER_DOCUMENT_NOT_FOUND", http.MethodGet, one+"/document", nil)
}
