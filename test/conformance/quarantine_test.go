//go:build conformance

package conformance

import "net/http"

// quarantine asks for quarantined verbs, and accepts one that is not.
func (j *journey) quarantine() {
	const acceptance = "/v1/providers/shop/verbs/get_order/accept"
	j.get(j.user, 200, "/v1/providers/shop/verbs?quarantined=true")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, "/v1/providers/shop/verbs?quarantined=perhaps", nil)
	j.call(j.user, 200, http.MethodPost, acceptance, nil)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, acceptance, object{"form": 1})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, acceptance, nil)
	j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodPost, "/v1/providers/none/verbs/get_order/accept", nil)
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodPost, "/v1/providers/shop/verbs/none/accept", nil)
	j.call(j.user, 200, http.MethodPost, acceptance, object{"form": "any"})
}
