//go:build conformance

package conformance

import "maps"

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
}

// order is a call that makes an order.
func order(id string) object {
	return object{"verb": "shop:create_order", "args": object{"customer_id": "cus_1001", "amount": 1999, "currency": "eur"}, "execution_id": id, "session_id": "s-1", "metadata": object{"why": "test"}}
}
