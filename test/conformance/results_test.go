//go:build conformance

package conformance

import (
	"maps"
	"net/http"
)

// results brings about the forms of results, after runs.
func (j *journey) results() {
	list := func(more object) object {
		body := object{"verb": "shop:list_orders", "args": object{}, "execution_id": "results-1"}
		maps.Copy(body, more)
		return body
	}
	j.post(j.key, 200, run, list(object{"fields": "[.. | numbers] | length"}))
	j.post(j.key, 200, run, list(object{"fields": "empty"}))
	j.post(j.key, 200, run, list(object{"max_bytes": 10}))
	j.post(j.key, 400, run, list(object{"fields": ".a |"}))
	j.get(j.key, 200, "/v1/results/results-1")
	j.get(j.key, 200, "/v1/results/results-1?path=/data&limit=1")
	j.get(j.user, 200, "/v1/results/results-1?format=text&max_bytes=1024")
	j.get(j.key, 400, "/v1/results/results-1?path=none")
	j.get(j.key, 404, "/v1/results/none")
	j.get(j.key, 409, "/v1/results/refund-1")
	j.files()
}

// files reads the file of a result.
func (j *journey) files() {
	var ran struct {
		Result struct{ File struct{ ID string } }
	}
	j.post(j.key, 200, run, object{"verb": "faulty:draw", "args": object{}, "execution_id": "drawn-1"}).Data(j.t, &ran)
	path := "/v1/executions/drawn-1/files/" + ran.Result.File.ID
	a := j.call(j.key, 200, http.MethodGet, path, nil)
	j.call(j.user, 304, http.MethodGet, path, nil, "If-None-Match: "+a.Header.Get("ETag"))
	j.call(j.user, 412, http.MethodGet, path, nil, `If-Match: "other"`)
	j.refused(j.key, 404, "FILE_NOT_FOUND", http.MethodGet, "/v1/executions/drawn-1/files/"+nobodys, nil)
	j.refused(j.key, 404, "EXECUTION_NOT_FOUND", http.MethodGet, "/v1/executions/none/files/"+nobodys, nil)
}

// order is a call that makes an order.
func order(id string) object {
	return object{"verb": "shop:create_order", "args": object{"customer_id": "cus_1001", "amount": 1999, "currency": "eur"}, "execution_id": id, "session_id": "s-1", "metadata": object{"why": "test"}}
}
