//go:build conformance

package conformance

import "net/http"

// audit reads the record of all that was done before it.
func (j *journey) audit() {
	for _, path := range []string{"/v1/audit", "/v1/audit/verify", "/v1/audit/export", "/v1/audit/keys"} {
		j.get(j.user, 200, path)
		j.get(j.none, 401, path)
		j.get(j.agent, 403, path)
	}
	j.get(j.user, 200, "/v1/audit?action=run.executed&verb=shop:create_order&limit=2")
	j.get(j.user, 400, "/v1/audit?limit=0")
	j.refused(j.user, 400, "INVALID_VERB", http.MethodGet, "/v1/audit?verb=none", nil)
	j.refused(j.user, 400, "INVALID_VERB", http.MethodGet, "/v1/audit/export?verb=none", nil)
	j.get(j.user, 200, "/v1/audit/export?format=csv&action=run.executed")
	j.get(j.user, 400, "/v1/audit/export?format=xml")
}
