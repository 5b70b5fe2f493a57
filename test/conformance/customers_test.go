//go:build conformance

package conformance

import (
	"fmt"
	"net/http"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

const customers = "/v1/customers"

// customers makes, finds, changes, merges and erases some.
func (j *journey) customers() {
	ada := j.post(j.user, 201, customers, object{
		"email": "ada@example.com", "phone": "+49 151 23456789", "external_id": "cus_ada", "name": "Ada", "metadata": object{"plan": "gold"}, "tags": []string{"vip"},
	}).Header.Get("Location")
	bob := j.post(j.key, 201, customers, object{"email": "bob@example.com"}).Header.Get("Location")
	j.post(j.user, 200, customers, object{"external_id": "cus_ada", "metadata": object{"plan": nil}})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, customers, object{"name": "nobody"})
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, customers, object{"email": "bob@example.com", "external_id": "cus_ada"})
	for _, query := range []string{"", "?limit=1", "?search=ad", "?search=a&limit=1", "?tag=vip", "?email=ada@example.com", "?phone=%2B4915123456789", "?external_id=cus_ada"} {
		j.get(j.user, 200, customers+query)
	}
	for _, query := range []string{"?limit=0", "?cursor=x", "?search=a&email=ada@example.com"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, customers+query, nil)
	}
	j.get(j.key, 200, customers+"/cus_ada")
	j.call(j.user, 200, http.MethodPatch, ada, object{"name": nil, "metadata": nil, "tags": []string{"vip", "eu"}})
	j.refused(j.user, 409, "CONFLICT", http.MethodPatch, ada, object{"email": "bob@example.com"})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, bob, object{"email": nil})
	j.post(j.user, 200, ada+"/merge", object{"customer_id": bob[len(customers)+1:]})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, ada+"/merge", object{"customer_id": "cus_ada"})
	j.mostIdentifiers()
	j.memory()

	ofAda := order("of-ada")
	ofAda["metadata"] = object{"customer_id": "cus_ada"}
	j.post(j.key, 200, run, ofAda)
	fails := j.published("Fails for Ada", object{"id": "check", "type": "validate", "value": 1, "schema": object{"const": 2}})
	failed := executionsPath + j.refused(j.key, 422, "MAP_FAILED", http.MethodPost, fails, object{"customer_id": "cus_ada"}).Error.ExecutionID
	j.get(j.user, 404, ada+"/erasure")
	j.get(j.user, 200, ada+"/export")
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodGet, ada+"/export", nil)
	j.refused(j.user, 404, "CUSTOMER_NOT_FOUND", http.MethodGet, customers+"/"+nobodys+"/export", nil)
	j.call(j.user, 200, http.MethodDelete, ada, nil)
	j.erasure = ada + "/erasure"
	j.becomes(j.erasure, "completed")
	j.refused(j.key, 409, "RESULT_EXPIRED", http.MethodPost, run, ofAda)
	j.refused(j.key, 409, "RESULT_EXPIRED", http.MethodGet, "/v1/results/of-ada", nil)
	j.refused(j.key, 409, "RESULT_EXPIRED", http.MethodGet, "/v1/executions/of-ada/files/"+nobodys, nil)
	j.refused(j.user, 409, "RESULT_EXPIRED", http.MethodPost, failed+"/retry", nil)
	j.refused(j.user, 409, "RESULT_EXPIRED", http.MethodPost, failed+"/changes/decide", object{"approve": "all"})
	j.get(j.user, 200, "/v1/executions/of-ada")
	gone := customers + "/" + nobodys
	for method, body := range map[string]any{http.MethodGet: nil, http.MethodPatch: object{}, http.MethodDelete: nil} {
		j.refused(j.user, 404, "CUSTOMER_NOT_FOUND", method, gone, body)
	}
	j.refused(j.user, 404, "CUSTOMER_NOT_FOUND", http.MethodPost, gone+"/merge", object{"customer_id": "cus_none"})
}

// memory writes, finds, changes and deletes facts about a customer.
func (j *journey) memory() {
	j.post(j.user, 201, customers, object{"external_id": "cus_known"})
	memory := customers + "/cus_known/memory"
	tea := j.post(j.server, 201, memory, object{"text": "Prefers tea.", "profile": true}).Header.Get("Location")
	j.post(j.user, 200, memory, object{"text": "prefers  TEA"})
	coffee := j.post(j.user, 201, memory, object{"text": "Prefers coffee.", "supersedes": tea[len(memory)+1:]}).Header.Get("Location")
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, memory, object{"text": "Prefers water.", "supersedes": tea[len(memory)+1:]})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, memory, object{"text": " "})
	for _, query := range []string{"", "?limit=1", "?superseded=true", "?superseded=false", "?search=coffee"} {
		j.get(j.user, 200, memory+query)
	}
	for _, query := range []string{"?limit=0", "?superseded=x", "?search=coffee&superseded=false"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, memory+query, nil)
	}
	j.get(j.user, 200, tea)
	other := j.post(j.user, 201, memory, object{"text": "Has a dog."}).Header.Get("Location")
	j.call(j.user, 200, http.MethodPatch, other, object{"text": "Has two dogs.", "tainted": true})
	j.refused(j.server, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPatch, other, object{"tainted": false})
	j.refused(j.user, 409, "CONFLICT", http.MethodPatch, other, object{"text": "Prefers coffee."})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPatch, other, object{"text": ""})
	j.call(j.user, 200, http.MethodDelete, coffee, nil)
	gone := customers + "/" + nobodys + "/memory"
	for method, body := range map[string]any{http.MethodGet: nil, http.MethodPatch: object{}, http.MethodDelete: nil} {
		j.refused(j.user, 404, "FACT_NOT_FOUND", method, coffee, body)
		j.refused(j.user, 404, "CUSTOMER_NOT_FOUND", method, gone+"/"+nobodys, body)
		j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", method, other, body)
	}
	j.refused(j.user, 404, "CUSTOMER_NOT_FOUND", http.MethodGet, gone, nil)
	j.refused(j.user, 404, "CUSTOMER_NOT_FOUND", http.MethodPost, gone, object{"text": "x"})
}

// mostIdentifiers merges customers until one would have too many identifiers, at the service itself:
// only the last answer is news.
func (j *journey) mostIdentifiers() {
	const most, each = 100, 4 // a customer has an id, an address, a number and an external_id
	direct := &rig.Client{Base: j.upstream, Token: j.user.Token, HTTP: rig.NewHTTP()}
	for i := range most/each + 1 {
		a := direct.Do(http.MethodPost, customers, object{
			"email": fmt.Sprintf("many-%d@example.com", i), "phone": fmt.Sprintf("+49151234000%02d", i), "external_id": fmt.Sprintf("many-%d", i),
		})
		require.Equal(j.t, http.StatusCreated, a.Status, "%s", a.Body)
	}
	into, next := customers+"/many-0/merge", 1
	for ; next < most/each; next++ {
		a := direct.Do(http.MethodPost, into, object{"customer_id": fmt.Sprintf("many-%d", next)})
		require.Equal(j.t, http.StatusOK, a.Status, "%s", a.Body)
	}
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, into, object{"customer_id": fmt.Sprintf("many-%d", next)})
}
