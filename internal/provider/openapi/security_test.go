package openapi_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

// A call presents all schemes of an alternative. One that names a scheme which the document does not
// declare cannot be met: nobody knows what is to be sent, and a part of it is not what the document asks for.
func TestImportKeepsOnlySecurityThatCanBeMet(t *testing.T) {
	t.Parallel()
	key := []verb.Scheme{{Name: "k", Type: "api_key", In: "header", Wire: "X-K"}}
	const none, undeclared = "no credential can meet its security: ", "the scheme typo is not declared"
	for name, tc := range map[string]struct {
		document, operation string // their security, "" for none
		auth                *credential.Auth
		security            verb.Security
		lost, rejected      string
	}{
		"declared":                          {operation: `[{"k":[]}]`, security: verb.Security{key}},
		"undeclared":                        {operation: `[{"typo":[]}]`, rejected: none + undeclared},
		"undeclared, with a declared one":   {operation: `[{"typo":[],"k":[]}]`, rejected: none + undeclared},
		"undeclared beside a declared one":  {operation: `[{"typo":[]},{"k":[]}]`, security: verb.Security{key}, lost: undeclared},
		"undeclared beside none":            {operation: `[{"typo":[]},{}]`, security: verb.Security{{}}, lost: undeclared},
		"undeclared beside an unsupported":  {operation: `[{"typo":[]},{"tls":[]}]`, rejected: none + "the scheme tls is not supported (mutualTLS)"},
		"no object":                         {operation: `[7]`, rejected: none + "it is not an object"},
		"no list":                           {operation: `{"k":[]}`, rejected: "its security is not a list"},
		"no list of the document":           {document: `{"k":[]}`, rejected: "its security is not a list"},
		"null":                              {document: `[{"k":[]}]`, operation: `null`, security: verb.Security{key}},
		"undeclared by the document":        {document: `[{"typo":[]}]`, rejected: none + undeclared},
		"together by the document":          {document: `[{"typo":[],"k":[]}]`, rejected: none + undeclared},
		"the operation says it better":      {document: `[{"typo":[]}]`, operation: `[{"k":[]}]`, security: verb.Security{key}},
		"the operation needs nothing":       {document: `[{"typo":[]}]`, operation: `[]`, security: verb.Security{{}}},
		"nothing is said":                   {security: verb.Security{key}},
		"undeclared where an auth is given": {operation: `[{"typo":[],"k":[]}]`, auth: &credential.Auth{Type: credential.Bearer}, security: verb.Security{{{Type: "bearer"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := map[string]any{
				"openapi": "3.1.0", "servers": []any{map[string]any{"url": "https://shop.example"}},
				"components": json.RawMessage(`{"securitySchemes":{"k":{"type":"apiKey","in":"header","name":"X-K"},"tls":{"type":"mutualTLS"}}}`),
			}
			operation := map[string]any{"operationId": "list_orders"}
			if tc.document != "" {
				doc["security"] = json.RawMessage(tc.document)
			}
			if tc.operation != "" {
				operation["security"] = json.RawMessage(tc.operation)
			}
			doc["paths"] = map[string]any{"/orders": map[string]any{"get": operation}}
			raw, err := json.Marshal(doc)
			require.NoError(t, err)
			im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: raw, Auth: tc.auth})
			require.NoError(t, err)
			if tc.rejected != "" {
				require.Equal(t, []verb.Report{{Operation: "GET /orders", Reason: tc.rejected}}, im.Rejected)
				require.Empty(t, im.Verbs)
				return
			}
			require.Empty(t, im.Rejected)
			if tc.lost == "" {
				require.Empty(t, im.Degraded)
			} else {
				require.Equal(t, []verb.Report{{Operation: "GET /orders", Reason: "an alternative of its security is left out: " + tc.lost}}, im.Degraded)
			}
			var plan httpplan.Plan
			require.NoError(t, json.Unmarshal(im.Verbs[0].Plan, &plan))
			require.Equal(t, tc.security, plan.Security)
		})
	}
}
