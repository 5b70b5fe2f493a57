//go:build conformance

package conformance

import (
	"net/http"
	"time"
)

// creations repeats a creation of each kind under its Idempotency-Key.
func (j *journey) creations() {
	provider := func(name string) object {
		return object{
			"slug": "repeated", "name": name, "base_url": "https://example.com", "auth": object{"type": "none"},
			"openapi": object{"openapi": "3.1.0", "info": object{"title": "x", "version": "1"}, "paths": object{}},
		}
	}
	policy := func(name string) object { return object{"name": name, "action": object{"type": "notify"}} }
	credential := func(label string) object {
		return object{"provider": "unconnected", "type": "bearer", "label": label, "data": object{"token": "t"}}
	}
	ends := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	grant := func(reason string) object {
		return object{"verb": "gated:pay", "expires_at": ends, "max_uses": 1, "reason": reason}
	}
	stop := func(reason string) object { return object{"scope": "agent", "target": "none", "reason": reason} }
	models := func(name string) object {
		return object{"slug": "repeated-" + name, "api": "openai", "base_url": "https://example.com"}
	}
	user := func(name string) object {
		return object{"email": "repeated@example.com", "role": "member", "name": name}
	}
	key := func(name string) object { return object{"name": name} }
	customer := func(name string) object { return object{"external_id": "repeated", "name": name} }
	webhook := func(about string) object {
		return object{"url": "https://example.com/events", "events": []string{"custom.*"}, "description": about}
	}
	fact := func(text string) object { return object{"text": text} }
	remembered := j.post(j.user, 201, customers, object{"external_id": "remembered"}).Header.Get("Location") + "/memory"
	for path, c := range map[string]struct {
		of   func(string) object
		gone bool // a deleted one cannot be read
	}{
		"/v1/providers": {provider, true}, policies: {policy, true}, "/v1/credentials": {credential, true},
		"/v1/grants": {grant, false}, "/v1/kill-switch": {stop, false}, "/v1/model-providers": {models, true}, "/v1/users": {user, false}, "/v1/api-keys": {key, false}, customers: {customer, true}, remembered: {fact, true}, webhooks: {webhook, true}, mapsPath: {looksUp, true}, agentsPath: {advises, true},
	} {
		const header = "Idempotency-Key: once"
		made := j.post(j.user, 201, path, c.of("one"), header)
		j.post(j.user, 200, path, c.of("one"), header)
		j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, path, c.of("two"), header)
		j.refused(j.user, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, path, c.of("one"), "Idempotency-Key: a b")
		if renew := map[string]string{"/v1/users": "/invite", "/v1/api-keys": "/rotate", webhooks: "/rotate-secret", "/v1/credentials": "/rotate"}[path]; renew != "" {
			renew = made.Header.Get("Location") + renew
			var with any
			if path == "/v1/credentials" {
				with = object{"data": object{"token": "u"}}
			}
			j.post(j.user, 200, renew, with, header)
			j.post(j.user, 200, renew, with, header)
			j.refused(j.user, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, renew, with, "Idempotency-Key: a b")
			if other := map[string]object{"/v1/api-keys": {"overlap_seconds": 1}, webhooks: {"secret": "of-our-own"}, "/v1/credentials": {"data": object{"token": "v"}}}[path]; other != nil {
				j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, renew, other, header)
			}
		}
		if c.gone {
			j.call(j.user, 200, http.MethodDelete, made.Header.Get("Location"), nil)
			j.post(j.user, 404, path, c.of("one"), header)
		}
	}
}

// selves asks who the callers are, and ends sessions of a user of its own.
func (j *journey) selves() {
	j.get(j.key, 200, "/v1/me")
	j.get(j.user, 200, "/v1/me")
	j.get(j.user, 200, "/v1/auth/sessions")
	const own = "selves@example.com"
	j.post(j.none, 201, "/v1/auth/signup", object{"email": own, "password": password})
	here, there := j.logIn(own), j.logIn(own)
	var me struct{ Session struct{ ID string } }
	j.call(there, 200, http.MethodGet, "/v1/me", nil).Data(j.t, &me)
	j.call(here, 200, http.MethodDelete, "/v1/auth/sessions/"+me.Session.ID, nil)
	j.call(here, 404, http.MethodDelete, "/v1/auth/sessions/"+me.Session.ID, nil)
	j.call(here, 200, http.MethodDelete, "/v1/auth/sessions", nil)
	const change = "/v1/auth/change-password"
	j.refused(here, 401, "INVALID_CREDENTIALS", http.MethodPost, change, object{"current_password": "wrong horse", "new_password": "another horse"})
	j.refused(here, 422, "WEAK_PASSWORD", http.MethodPost, change, object{"current_password": password, "new_password": "short"})
	j.post(here, 200, change, object{"current_password": password, "new_password": "another horse"})
}
