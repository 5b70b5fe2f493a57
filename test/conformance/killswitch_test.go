//go:build conformance

package conformance

import "net/http"

// killSwitches sets some, shows and lifts them.
func (j *journey) killSwitches() {
	const path = "/v1/kill-switch"
	set := j.post(j.user, 201, path, object{"scope": "agent", "target": "a-1", "reason": "out of control"}).Header.Get("Location")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, path, object{"scope": "agent", "reason": "r"})
	j.refused(j.user, 400, "INVALID_VERB", http.MethodPost, path, object{"scope": "verb", "target": "none", "reason": "r"})
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodPost, path, object{"scope": "verb", "target": "gated:none", "reason": "r"})
	j.refused(j.user, 404, "PROVIDER_NOT_FOUND", http.MethodPost, path, object{"scope": "provider", "target": "none", "reason": "r"})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, path, object{"scope": "tenant", "reason": "r"})
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, path, nil)
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, set, nil)
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodDelete, set, nil)
	for _, query := range []string{"", "?status=all", "?status=set&limit=1"} {
		j.get(j.member, 200, path+query)
	}
	for _, query := range []string{"status=none", "limit=0", "cursor=x"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, path+"?"+query, nil)
	}
	j.get(j.member, 200, set)
	j.call(j.user, 200, http.MethodDelete, set, nil)
	j.refused(j.user, 404, "KILL_SWITCH_NOT_FOUND", http.MethodDelete, set, nil)
	j.refused(j.user, 404, "KILL_SWITCH_NOT_FOUND", http.MethodGet, path+"/none", nil)
	j.get(j.member, 200, set)
}
