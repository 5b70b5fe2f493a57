//go:build conformance

package conformance

import "net/http"

// quarantine asks for quarantined verbs, and accepts one that is not.
func (j *journey) quarantine() {
	const acceptance = "/v1/providers/shop/verbs/get_order/accept"
	j.get(j.user, 200, "/v1/providers/shop/verbs?quarantined=true")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, "/v1/providers/shop/verbs?quarantined=perhaps", nil)
	j.call(j.user, 200, http.MethodPost, acceptance, nil)
	const trust = "/v1/providers/shop/verbs/get_order"
	j.call(j.user, 200, http.MethodPatch, trust, object{"trust": "external", "taint": []string{"/note"}})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, trust, object{"taint": []string{"note"}})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPatch, trust, object{"trust": "own"})
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodPatch, "/v1/providers/shop/verbs/none", object{"trust": "own"})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, acceptance, object{"form": 1})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, acceptance, nil)
	j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodPost, "/v1/providers/none/verbs/get_order/accept", nil)
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodPost, "/v1/providers/shop/verbs/none/accept", nil)
	j.call(j.user, 200, http.MethodPost, acceptance, object{"form": "any"})

	// A policy names the verb, and the next import requires an argument more.
	shaped := func(status int, required ...string) {
		schema := object{"type": "object", "properties": object{"a": object{"type": "string"}, "b": object{"type": "string"}}, "required": required}
		operation := object{"operationId": "make", "requestBody": object{"content": object{"application/json": object{"schema": schema}}}, "responses": object{}}
		j.post(j.user, status, "/v1/providers", object{"slug": "shaped", "base_url": "https://api.example.com", "openapi": object{
			"openapi": "3.1.0", "info": object{"title": "Shaped", "version": "1"}, "paths": object{"/a": object{"post": operation}},
		}})
	}
	shaped(201, "a")
	j.post(j.user, 201, "/v1/policies", object{"name": "Shaped", "verbMatchers": []object{{"verb": "shaped:make"}}, "action": object{"type": "notify"}})
	shaped(200, "a", "b")
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, "/v1/providers/shaped/verbs/make/accept", object{"form": "another"})
}
