//go:build conformance

package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/sandbox"
	"agentruntime/test/rig"
)

// faulty is a provider that fails in every way.
func faulty(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/silent":
		<-r.Context().Done()
	case "/failing":
		w.WriteHeader(http.StatusInternalServerError)
	case "/busy":
		w.Header().Set("Retry-After", "5") // seconds
		w.WriteHeader(http.StatusTooManyRequests)
	case "/refusing":
		w.WriteHeader(http.StatusConflict)
	case "/picture":
		w.Header().Set("Content-Type", "image/png")
		_, _ = fmt.Fprint(w, "\x89PNG\xff")
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `[1, 9007199254740993]`)
	}
}

const faultyDocument = `{"openapi":"3.1.0","info":{"title":"faulty","version":"1"},"paths":{
	"/silent":{"get":{"operationId":"hang"},"post":{"operationId":"hang_write"}},
	"/failing":{"get":{"operationId":"fail"},"post":{"operationId":"fail_write"}},
	"/busy":{"post":{"operationId":"wait"}},
	"/refusing":{"post":{"operationId":"refuse"}},
	"/picture":{"get":{"operationId":"draw","responses":{}}},
	"/list":{"get":{"operationId":"list","responses":{}},"put":{"operationId":"lost","parameters":[{"$ref":"file:///none"}]},"options":{}}}}`

func (j *journey) providers() {
	shop, err := sandbox.New(sandbox.Config{APIKey: "k"})
	require.NoError(j.t, err)
	base := rig.Serve(j.t, shop)
	document := json.RawMessage(sandbox.Document(base))
	j.post(j.user, 201, "/v1/providers", object{"slug": "shop", "name": "Shop", "domain": "commerce", "base_url": base, "openapi": document})
	j.post(j.user, 200, "/v1/providers", object{"slug": "shop", "base_url": base, "openapi": document})
	j.post(j.user, 201, "/v1/providers", object{"slug": "unconnected", "base_url": base, "openapi": document})
	j.post(j.user, 201, "/v1/providers", object{"slug": "faulty", "base_url": rig.Serve(j.t, http.HandlerFunc(faulty)), "auth": object{"type": "none"}, "openapi": json.RawMessage(faultyDocument)})
	j.post(j.user, 201, "/v1/providers", object{"slug": "gone", "base_url": base, "auth": object{"type": "api_key", "in": "query", "name": "k"}, "openapi": document})
	j.post(j.user, 400, "/v1/providers", object{"slug": "A", "openapi": object{}})
	j.post(j.user, 422, "/v1/providers", object{"slug": "x", "base_url": "https://169.254.169.254", "openapi": document})
	j.get(j.user, 200, "/v1/providers?limit=2")
	j.get(j.user, 200, "/v1/providers")
	j.get(j.user, 400, "/v1/providers?limit=0")
	j.get(j.user, 200, "/v1/providers/faulty")
	j.get(j.user, 404, "/v1/providers/none")
	for _, format := range []string{"tools", "anthropic", "gemini", "mcp&compact=true&budget=2048"} {
		j.get(j.user, 200, "/v1/providers/shop/verbs?operation_type=write&limit=2&format="+format)
	}
	j.get(j.user, 404, "/v1/providers/none/verbs")
	j.get(j.user, 400, "/v1/providers/shop/verbs?operation_type=none")
	j.get(j.user, 200, "/v1/providers/shop/document")
	j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodGet, "/v1/providers/none/document", nil)
	j.call(j.user, 200, http.MethodPatch, "/v1/providers/shop", object{"name": "The shop"})
	j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodPatch, "/v1/providers/none", object{"name": "x"})
	j.refused(j.user, 422, "URL_NOT_ALLOWED", http.MethodPatch, "/v1/providers/shop", object{"base_url": "https://169.254.169.254"})
	of := "/v1/providers/shop/verbs/get_order"
	j.call(j.user, 200, http.MethodPatch, of, object{"trust": "own", "taint": []string{"/note"}, "egress": false})
	j.call(j.user, 400, http.MethodPatch, of, object{"trust": "mine"})
	j.call(j.member, 403, http.MethodPatch, of, object{"trust": "own"})
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodPatch, of+"s", object{"trust": "own"})
	j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodPatch, "/v1/providers/none/verbs/get_order", object{"trust": "own"})
	j.atOnce("two changes of a provider meet", http.MethodPatch, "/v1/providers/gone", object{"domain": "other"})
	j.call(j.user, 200, http.MethodDelete, "/v1/providers/gone", nil)
	j.call(j.user, 404, http.MethodDelete, "/v1/providers/gone", nil)
}
