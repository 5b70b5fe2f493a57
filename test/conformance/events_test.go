//go:build conformance

package conformance

import "net/http"

// events sends events and reads those of all that was done before it. A stream that is admitted
// does not end, so none is opened here; api has tests of it.
func (j *journey) events() {
	const path = "/v1/events"
	one := object{"id": "shipment-17", "type": "custom.order_shipped", "data": object{"order": "ord_77"}}
	j.post(j.server, 201, path, one)
	j.post(j.server, 200, path, one)
	j.refused(j.server, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, path, object{"id": "shipment-17", "type": "custom.other"})
	j.get(j.user, 200, path+"?type=action.*&limit=3")
	j.get(j.user, 200, path+"?order=asc")
	j.get(j.user, 400, path+"?limit=0")
	j.get(j.user, 200, path+"/shipment-17")
	j.get(j.user, 404, path+"/none")
	j.get(j.user, 400, path+"/stream?type=none!")
	j.get(j.user, 200, "/v1/webhooks/event-types")
}
