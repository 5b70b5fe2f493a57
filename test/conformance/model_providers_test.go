//go:build conformance

package conformance

import "net/http"

// modelProviders names some, shows and deletes them.
func (j *journey) modelProviders() {
	const path = "/v1/model-providers"
	own := object{"slug": "local", "api": "openai", "base_url": "https://models.example.com/v1"}
	made := j.post(j.user, 201, path, own).Header.Get("Location")
	j.post(j.user, 201, path, object{"slug": "anthropic", "default_model": "claude-haiku-4-5"})
	j.post(j.user, 201, "/v1/credentials", object{"provider": "model:local", "type": "bearer", "data": object{"token": "t"}})
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, path, own)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, path, object{"slug": "builtin", "api": "openai", "base_url": "https://example.com"})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, path, object{"slug": "x", "api": "openai", "private": "unlisted"})
	j.refused(j.user, 422, "URL_NOT_ALLOWED", http.MethodPost, path, object{"slug": "x", "api": "openai", "base_url": "http://10.0.0.1/v1"})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, path, own)
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, path, nil)
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, made, nil)
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodDelete, made, nil)
	for _, query := range []string{"", "?limit=1"} {
		j.get(j.member, 200, path+query)
	}
	for _, query := range []string{"limit=0", "cursor=x"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, path+"?"+query, nil)
	}
	j.get(j.member, 200, made)
	j.call(j.user, 200, http.MethodPatch, made, object{"dialect": object{"max_tokens_field": "max_tokens", "stream_usage": false}})
	j.call(j.user, 200, http.MethodPatch, made, object{"default_model": "m"})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, made, object{"dialect": object{"max_tokens_field": "tokens"}})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPatch, made, object{})
	j.call(j.user, 200, http.MethodDelete, made, nil)
	j.refused(j.user, 404, "MODEL_PROVIDER_NOT_FOUND", http.MethodDelete, made, nil)
	j.refused(j.user, 404, "MODEL_PROVIDER_NOT_FOUND", http.MethodGet, made, nil)
	j.refused(j.user, 404, "MODEL_PROVIDER_NOT_FOUND", http.MethodPatch, made, object{})
}
