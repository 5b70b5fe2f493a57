//go:build conformance

package conformance

import "net/http"

// budgets sets and shows some, and uses one up.
func (j *journey) budgets() {
	const path = "/v1/budgets"
	all := func(writes any) object {
		return object{"model_tokens": nil, "money_micros": nil, "write_calls": writes}
	}
	j.call(j.user, 200, http.MethodPut, path, object{"model_tokens": 5_000_000, "money_micros": 250_000_000, "write_calls": 1_000_000})
	j.get(j.member, 200, path)
	var key struct{ ID, Key string }
	j.post(j.user, 201, "/v1/api-keys", object{"name": "budget", "permissions": []string{"actions:run"}}).Data(j.t, &key)
	own := all(1)
	own["key_id"] = key.ID
	j.call(j.user, 200, http.MethodPut, path, own)
	spender := j.withKey(key.Key)
	j.post(spender, 200, run, order("within-budget"))
	j.get(spender, 200, "/v1/rate-limits")
	j.refused(spender, 429, "BUDGET_EXCEEDED", http.MethodPost, run, order("over-budget"))
	j.get(j.user, 200, path)

	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPut, path, all(0))
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPut, path, object{"write_calls": 1})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPut, path, all(1))
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, path, nil)
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPut, path, all(1))
	unknown := all(1)
	unknown["key_id"] = nobodys
	j.refused(j.user, 404, "API_KEY_NOT_FOUND", http.MethodPut, path, unknown)
	own["write_calls"] = nil
	j.call(j.user, 200, http.MethodPut, path, own)
	j.call(j.user, 200, http.MethodPut, path, all(nil))
}
