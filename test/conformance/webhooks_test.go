//go:build conformance

package conformance

import (
	"net/http"

	"agentruntime/test/rig"
)

const webhooks = "/v1/webhooks"

// webhooks subscribes, and looks at what is delivered, what is under way and what failed.
func (j *journey) webhooks() {
	answers := make(chan struct{})
	receiver := rig.Serve(j.t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-answers
		}
	}))
	const private = "https://10.0.0.1/events"
	sub := func(url string) object { return object{"url": url, "events": []string{"custom.*"}} }
	one := j.post(j.user, 201, webhooks, sub(receiver)).Header.Get("Location")
	slow := j.post(j.user, 201, webhooks, sub(receiver+"/slow")).Header.Get("Location")
	j.refused(j.user, 422, "URL_NOT_ALLOWED", http.MethodPost, webhooks, sub(private))
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, webhooks, object{"url": receiver, "events": []string{"none"}})
	for _, query := range []string{"", "?limit=1"} {
		j.get(j.user, 200, webhooks+query)
	}
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, webhooks+"?limit=0", nil)
	j.get(j.user, 200, one)
	j.call(j.user, 200, http.MethodPatch, one, object{"description": "orders", "events": []string{"*"}})
	j.refused(j.user, 422, "URL_NOT_ALLOWED", http.MethodPatch, one, object{"url": private})
	j.post(j.user, 200, one+"/rotate-secret", nil)
	j.post(j.user, 200, one+"/rotate-secret", object{"secret": "of-our-own"})

	delivery := j.delivery(one)
	j.becomes(delivery, "delivered")
	j.post(j.user, 202, delivery+"/redeliver", nil)
	j.becomes(delivery, "delivered")
	underWay := j.delivery(slow)
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, underWay+"/redeliver", nil)
	close(answers)
	j.becomes(underWay, "delivered")
	for _, query := range []string{"", "?status=delivered&limit=1"} {
		j.get(j.user, 200, one+"/deliveries"+query)
	}
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, one+"/deliveries?status=none", nil)
	since := object{"since": "2026-01-01T00:00:00Z"}
	j.post(j.user, 202, one+"/recover", since)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, one+"/recover", object{})
	j.call(j.user, 200, http.MethodPatch, slow, object{"enabled": false})
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, slow+"/recover", since)
	j.drop(slow)
	j.delivered = delivery
	j.unknownWebhooks(one, since)
}

func (j *journey) unknownWebhooks(one string, since object) {
	const none = webhooks + "/" + nobodys
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, none, nil},
		{http.MethodPatch, none, object{}},
		{http.MethodDelete, none, nil},
		{http.MethodPost, none + "/rotate-secret", nil},
		{http.MethodPost, none + "/test", nil},
		{http.MethodPost, none + "/recover", since},
		{http.MethodGet, none + "/deliveries", nil},
		{http.MethodGet, none + "/deliveries/evt_" + nobodys, nil},
		{http.MethodPost, none + "/deliveries/evt_" + nobodys + "/redeliver", nil},
	} {
		j.refused(j.user, 404, "WEBHOOK_NOT_FOUND", c.method, c.path, c.body)
	}
	delivery := one + "/deliveries/evt_" + nobodys
	j.refused(j.user, 404, "DELIVERY_NOT_FOUND", http.MethodGet, delivery, nil)
	j.refused(j.user, 404, "DELIVERY_NOT_FOUND", http.MethodPost, delivery+"/redeliver", nil)
}

// delivery sends a test event to a webhook and returns the path of its delivery.
func (j *journey) delivery(webhook string) (path string) {
	j.t.Helper()
	var made struct{ ID string }
	j.post(j.user, 202, webhook+"/test", nil).Data(j.t, &made)
	return webhook + "/deliveries/" + made.ID
}
