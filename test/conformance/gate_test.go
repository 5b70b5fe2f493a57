//go:build conformance

package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// gated is the document of a provider whose calls policies and approvals are about:
// a read, a write of medium risk and one of high risk.
const gated = `{"openapi":"3.1.0","info":{"title":"gated","version":"1"},"paths":{"/payments":{
	"get":{"operationId":"list"},
	"post":{"operationId":"pay","requestBody":{"required":true,"content":{"application/json":{"schema":{
		"type":"object","additionalProperties":false,"required":["amount"],"properties":{
			"amount":{"type":"integer"},"note":{"type":"string"},"pin":{"type":"string","format":"password"}}}}}}},
	"delete":{"operationId":"wipe"}}}}`

// gatedProvider imports it under a slug, connects it and returns the credential's id.
func (j *journey) gatedProvider(slug string) (credential string) {
	j.t.Helper()
	base := rig.Serve(j.t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"id":"p-1"}`)
	}))
	j.post(j.user, 201, "/v1/providers", object{"slug": slug, "base_url": base, "openapi": json.RawMessage(gated)})
	var made struct{ ID string }
	j.post(j.user, 201, "/v1/credentials", object{"provider": slug, "type": "bearer", "data": object{"token": "t"}}).Data(j.t, &made)
	return made.ID
}

// refused asks for a status and an error code, and returns what was refused.
func (j *journey) refused(c *rig.Client, status int, code, method, path string, body any, headers ...string) rig.Envelope {
	j.t.Helper()
	a := j.call(c, status, method, path, body, headers...)
	require.Equal(j.t, code, a.Code(j.t), "%s %s: %s", method, path, a.Body)
	return a.Envelope(j.t)
}

// rule is a policy of an action for a verb.
func rule(name, action, verb string) object {
	return object{"name": name, "action": object{"type": action}, "verbMatchers": []object{{"type": "verb", "value": verb}}}
}

// requires is a policy that has calls of a verb held.
func requires(name, verb string, approval object) object {
	p := rule(name, "require_approval", verb)
	p["approval"] = approval
	return p
}

func condition(field, operator string, value any) object {
	return object{"field": field, "operator": operator, "value": value}
}

// policy stores one and returns its path.
func (j *journey) policy(body object) (path string) {
	j.t.Helper()
	return j.post(j.user, 201, "/v1/policies", body).Header.Get("Location")
}

func (j *journey) drop(path string) {
	j.t.Helper()
	j.call(j.user, 200, http.MethodDelete, path, nil)
}

// pay is a call of the gated provider.
func pay(slug, id string, amount int) object {
	return object{"verb": slug + ":pay", "args": object{"amount": amount, "note": "n", "pin": "1234"}, "execution_id": id}
}

// hold makes a call that has to be held and returns the path of its approval.
func (j *journey) hold(body object) (path string) {
	j.t.Helper()
	e := j.refused(j.key, 403, "GOVERNANCE_BLOCKED", http.MethodPost, run, body)
	require.Equal(j.t, "pending_approval", e.Error.Decision)
	return "/v1/approvals/" + e.Error.ApprovalID
}

// becomes waits until what is at a path of the user's has a status.
func (j *journey) becomes(path, status string) {
	j.t.Helper()
	rig.Until(j.t, 20*time.Second, path+" is "+status, func() bool {
		var got struct{ Status string }
		j.call(j.user, 200, http.MethodGet, path, nil).Data(j.t, &got)
		return got.Status == status
	})
}
