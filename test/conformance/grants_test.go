//go:build conformance

package conformance

import (
	"maps"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

// grants gives approvals in advance, uses them up and takes them back.
func (j *journey) grants() {
	const grants = "/v1/grants"
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	grant := func(more object) object {
		g := object{"verb": "gated:pay", "expires_at": in(time.Hour), "max_uses": 1, "reason": "r"}
		maps.Copy(g, more)
		return g
	}
	give := func(more object) string { return j.post(j.approver, 201, grants, grant(more)).Header.Get("Location") }
	// One that will be over and one that is narrow, neither for the calls below.
	brief := give(object{"verb": "gated:list", "expires_at": in(5 * time.Second)})
	narrow := give(object{
		"api_key_id": j.keyID, "customer_id": "c", "max_uses": 100000,
		"conditions": []object{condition("args.amount", "less", 1000), {"field": "args.note", "operator": "exists"}},
	})
	for _, more := range []object{
		{"max_uses": 0},
		{"max_uses": nil},
		{"reason": ""},
		{"expires_at": "tomorrow"},
		{"expires_at": in(-time.Hour)},
		{"api_key_id": nobodys},
		{"api_key_id": "none"},
		{"agent_id": "a"},
		{"agent_id": nobodys},
		{"map_id": "none"},
		{"map_id": nobodys},
		{"conditions": []object{condition("args.amount", "bigger", 1)}},
		{"until": in(time.Hour)},
	} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, grants, grant(more))
	}
	j.refused(j.user, 400, "INVALID_VERB", http.MethodPost, grants, grant(object{"verb": "none"}))
	j.refused(j.user, 404, "VERB_NOT_FOUND", http.MethodPost, grants, grant(object{"verb": "gated:none"}))
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, grants, grant(nil))
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, grants, grant(nil))

	gate := j.policy(requires("Granted", "gated:pay", object{}))
	used := give(nil)
	j.post(j.key, 200, run, pay("gated", "granted-1", 1))
	var ran struct {
		GrantID string `json:"grant_id"`
	}
	j.call(j.user, 200, http.MethodGet, "/v1/executions/granted-1", nil).Data(j.t, &ran)
	require.Equal(j.t, used, grants+"/"+ran.GrantID)
	j.hold(pay("gated", "granted-2", 1)) // there is no use left
	j.post(j.user, 200, "/v1/executions/granted-2/cancel", nil)
	j.drop(gate)

	j.call(j.approver, 200, http.MethodPatch, narrow, object{"max_uses": 1})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, narrow, object{"max_uses": 2})
	j.refused(j.user, 404, "GRANT_NOT_FOUND", http.MethodPatch, grants+"/none", object{})
	j.refused(j.user, 409, "CONFLICT", http.MethodPatch, used, object{})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodDelete, narrow, nil)
	j.call(j.approver, 200, http.MethodDelete, narrow, nil)
	j.refused(j.approver, 404, "GRANT_NOT_FOUND", http.MethodDelete, narrow, nil)
	j.becomes(narrow, "revoked")
	j.becomes(used, "used_up")
	j.becomes(brief, "expired")
	unused := give(nil)
	j.becomes(unused, "active")
	j.refused(j.user, 404, "GRANT_NOT_FOUND", http.MethodGet, grants+"/"+nobodys, nil)
	j.refused(j.user, 404, "GRANT_NOT_FOUND", http.MethodGet, grants+"/none", nil)
	for _, query := range []string{"", "?limit=1", "?usable=true", "?usable=false&provider=gated", "?verb=gated:pay"} {
		j.get(j.member, 200, grants+query)
	}
	for _, query := range []string{"limit=0", "usable=perhaps", "cursor=nonsense"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, grants+"?"+query, nil)
	}
	j.refused(j.user, 400, "INVALID_VERB", http.MethodGet, grants+"?verb=none", nil)
	j.call(j.user, 200, http.MethodDelete, unused, nil)
}
