//go:build conformance

package conformance

import (
	"net/http"
)

// sessions reads the sessions of an agent, takes one over, rates a reply and verifies identities.
func (j *journey) sessions() {
	agent, path := j.talks("builtin", "scripted", nil)
	var said struct {
		ExecutionID string `json:"execution_id"`
	}
	j.post(j.writer, 200, path, object{"message": "Hello", "session_id": "s-1", "customer_id": "s-customer"}).Data(j.t, &said)
	j.post(j.writer, 200, path, object{"message": "Hello", "session_id": "s-2"})
	list := agent + "/sessions"
	one := list + "/s-1"
	for _, query := range []string{"", "?limit=1", "?status=open&escalated=false", "?customer_id=" + nobodys} {
		j.get(j.user, 200, list+query)
	}
	for _, query := range []string{"?limit=0", "?status=tired", "?escalated=perhaps", "?cursor=x"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, list+query, nil)
	}
	none := agentsPath + "/" + nobodys + "/sessions"
	j.refused(j.user, 404, "AGENT_NOT_FOUND", http.MethodGet, none, nil)
	tag := j.call(j.user, 200, http.MethodGet, one, nil).Header.Get("ETag")
	j.call(j.user, 304, http.MethodGet, one, nil, "If-None-Match: "+tag)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodGet, one, nil, `If-Match: "other"`)
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodDelete, one, nil, `If-Match: "other"`)
	j.get(j.user, 200, one+"/messages?limit=1")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/messages?limit=0", nil)
	for _, c := range []struct {
		method, more string
		body         any
	}{
		{http.MethodGet, "", nil},
		{http.MethodDelete, "", nil},
		{http.MethodGet, "/messages", nil},
		{http.MethodPost, "/takeover", nil},
		{http.MethodPost, "/reply", object{"message": "Hello"}},
		{http.MethodPost, "/handback", nil},
	} {
		j.refused(j.user, 404, "SESSION_NOT_FOUND", c.method, list+"/none"+c.more, c.body)
		j.refused(j.user, 404, "AGENT_NOT_FOUND", c.method, none+"/none"+c.more, c.body)
	}

	j.refused(j.user, 409, "CONFLICT", http.MethodPost, one+"/handback", nil)
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, one+"/reply", object{"message": "Hello"})
	j.post(j.user, 200, one+"/takeover", nil)
	j.post(j.user, 200, one+"/takeover", nil)
	j.post(j.writer, 200, path, object{"message": "Hello", "session_id": "s-1"})
	j.post(j.user, 200, one+"/reply", object{"message": "A person says hello."}, "Idempotency-Key: s-1")
	j.post(j.user, 200, one+"/reply", object{"message": "A person says hello."}, "Idempotency-Key: s-1")
	j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, one+"/reply", object{"message": "Else"}, "Idempotency-Key: s-1")
	j.refused(j.user, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, one+"/reply", object{"message": "Else"}, "Idempotency-Key: a b")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, one+"/reply", object{})
	j.refused(j.user, 409, "CONFLICT", http.MethodDelete, one, nil)
	j.post(j.user, 200, one+"/handback", nil)
	j.get(j.user, 200, one+"/messages")

	rate := executionsPath + said.ExecutionID + "/feedback"
	j.call(j.user, 200, http.MethodPut, rate, object{"rating": "up"})
	j.call(j.writer, 200, http.MethodPut, rate, object{"rating": "down", "comment": "It was late."})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPut, rate, object{"rating": "sideways"})
	j.refused(j.member, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPut, rate, object{"rating": "up"})
	j.refused(j.user, 404, "EXECUTION_NOT_FOUND", http.MethodPut, executionsPath+"none/feedback", object{"rating": "up"})
	slow := j.post(j.writer, 202, path, object{"message": "take your time", "session_id": "s-2"}, "Prefer: wait=0").Header.Get("Location")
	j.refused(j.user, 409, "CONFLICT", http.MethodPut, slow+"/feedback", object{"rating": "up"})
	j.get(j.user, 200, list+"?status=busy")
	j.refused(j.user, 409, "CONFLICT", http.MethodDelete, list+"/s-2", nil)
	j.post(j.user, 200, list+"/s-2/takeover", nil)
	second, _ := j.user.NewUser(j.t, "takes-over@example.com", "approver")
	j.refused(second, 409, "CONFLICT", http.MethodPost, list+"/s-2/takeover", nil)
	j.get(j.user, 200, list+"?status=held")
	j.get(j.user, 200, executionsPath+said.ExecutionID)
	j.drop(one)

	vouching := j.post(j.user, 201, "/v1/api-keys", object{"name": "vouches", "permissions": []string{"agents:message"}, "identity_verification": true})
	var key struct{ ID, Key string }
	vouching.Data(j.t, &key)
	j.refused(j.withKey(key.Key), 422, "IDENTITY_REQUIRED", http.MethodPost, path, object{"message": "Hello", "customer_id": "s-customer", "identity_hash": "00"})
	rotate := "/v1/api-keys/" + key.ID + "/rotate-identity-secret"
	j.post(j.user, 200, rotate, object{"overlap_seconds": 60}, "Idempotency-Key: s-2")
	j.post(j.user, 200, rotate, object{"overlap_seconds": 60}, "Idempotency-Key: s-2")
	j.refused(j.user, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, rotate, object{"overlap_seconds": 61}, "Idempotency-Key: s-2")
	j.refused(j.user, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, rotate, nil, "Idempotency-Key: a b")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, rotate, object{"overlap_seconds": -1})
	j.refused(j.user, 404, "API_KEY_NOT_FOUND", http.MethodPost, "/v1/api-keys/"+nobodys+"/rotate-identity-secret", nil)
	_, plain := j.newKey(object{"name": "does not vouch", "permissions": []string{"agents:message"}})
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, "/v1/api-keys/"+plain+"/rotate-identity-secret", nil)
}
