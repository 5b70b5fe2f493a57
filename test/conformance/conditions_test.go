//go:build conformance

package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// conditions reads and changes one object of each kind under conditions.
func (j *journey) conditions() {
	var made struct{ ID string }
	create := func(path string, body object) string {
		j.post(j.user, 201, path, body).Data(j.t, &made)
		return path + "/" + made.ID
	}
	var blocked struct {
		ApprovalID string `json:"approval_id"`
	}
	j.call(j.user, 200, http.MethodGet, "/v1/executions/refund-1", nil).Data(j.t, &blocked)
	policy := create(policies, everything())
	drawn := create(mapsPath, looksUp("Drawn"))
	advised := create(agentsPath, advises("Compared"))
	known := create(customers, object{"external_id": "conditions-of-facts"})
	paths := map[string]object{ // with what a PATCH or PUT says
		"/v1/runtime/actions/catalog":                   nil,
		"/v1/runtime/actions/catalog/shop:create_order": nil,
		"/v1/providers/shop/verbs":                      nil,
		"/v1/executions/order-1":                        nil,
		"/v1/approvals/counts":                          nil,
		"/v1/approvals/" + blocked.ApprovalID:           nil,
		"/v1/audit/keys":                                nil,
		"/v1/me":                                        nil,
		"/v1/events/shipment-17":                        nil,
		"/v1/providers/shop/document":                   nil,
		advised + "/versions/1":                         nil,
		advised + "/versions/1/diff":                    nil,
		drawn + "/versions/1":                           nil,
		drawn + "/graph":                                nil,
		create(agentsPath, advises("Conditions")):       {"instructions": "Changed."},
		create(mapsPath, looksUp("Conditions")):         looksUp("Changed"),
		j.delivered:                                     nil,
		j.erasure:                                       nil,
		"/v1/governance/masking":                        {"paths": []object{}},
		"/v1/budgets":                                   {"model_tokens": nil, "money_micros": 1, "write_calls": nil},
		"/v1/rate-limits":                               {"requests_per_minute": 1_000_000, "requests_per_hour": 1_000_000, "requests_per_day": 999_999},
		policy:                                          {"priority": 1},
		policy + "/coverage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z":                                                                              nil,
		create("/v1/grants", object{"verb": "gated:pay", "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "max_uses": 1, "reason": "r"}): {"max_uses": 1},
		create("/v1/model-providers", object{"slug": "conditions", "api": "openai", "base_url": "https://example.com"}):                                     {"dialect": object{"max_tokens_field": "max_tokens"}},
		create("/v1/kill-switch", object{"scope": "agent", "target": "conditions", "reason": "r"}):                                                          nil,
		create("/v1/credentials", object{"provider": "unconnected", "type": "bearer", "data": object{"token": "t"}}):                                        {"label": "x"},
		create("/v1/users", object{"email": "conditions@example.com", "role": "member"}):                                                                    {"name": "x"},
		create(customers, object{"external_id": "conditions"}):                                                                                              {"name": "x"},
		create(known+"/memory", object{"text": "Likes tea."}):                                                                                               {"text": "Likes coffee."},
		create(webhooks, object{"url": "https://example.com", "events": []string{"custom.*"}}):                                                              {"description": "x"},
		create("/v1/api-keys", object{"name": "x"}):                                                                                                         {"name": "y"},
		j.provider("conditions"): {"name": "x"},
	}
	for path, change := range paths {
		j.underConditions(path, change)
	}
	// The sealer changes what is found between two readings; any tag will do to see both answers.
	j.call(j.user, 304, http.MethodGet, "/v1/audit/verify", nil, "If-None-Match: *")
	j.refused(j.user, 412, "PRECONDITION_FAILED", http.MethodGet, "/v1/audit/verify", nil, `If-Match: "other"`)
}

// provider imports a provider of its own and returns its path.
func (j *journey) provider(slug string) string {
	j.post(j.user, 201, "/v1/providers", object{
		"slug": slug, "base_url": "https://example.com", "auth": object{"type": "none"},
		"openapi": object{"openapi": "3.1.0", "info": object{"title": "x", "version": "1"}, "paths": object{}},
	})
	return "/v1/providers/" + slug
}

func (j *journey) underConditions(path string, change object) {
	c := j.user
	if strings.HasPrefix(path, "/v1/runtime/") {
		c = j.key
	}
	tag := j.call(c, 200, http.MethodGet, path, nil).Header.Get("ETag")
	require.NotEmpty(j.t, tag, path)
	j.call(c, 304, http.MethodGet, path, nil, "If-None-Match: "+tag)
	j.refused(c, 412, "PRECONDITION_FAILED", http.MethodGet, path, nil, `If-Match: "other"`)
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
		switch path, _, _ := strings.Cut(path, "?"); {
		case !j.w.takes(method, path):
		case method == http.MethodDelete:
			j.refused(c, 412, "PRECONDITION_FAILED", method, path, nil, "If-None-Match: "+tag)
			j.call(c, 200, method, path, nil, "If-Match: "+tag)
		case method == http.MethodPut && strings.HasPrefix(path, policies):
			j.refused(c, 412, "PRECONDITION_FAILED", method, path, everything(), "If-None-Match: "+tag)
		default:
			j.refused(c, 412, "PRECONDITION_FAILED", method, path, change, "If-None-Match: "+tag)
			tag = j.call(c, 200, method, path, change, "If-Match: "+tag).Header.Get("ETag")
		}
	}
}

// takes reports whether the path takes the method.
func (w *watcher) takes(method, path string) bool {
	return slices.ContainsFunc(w.ops, func(op operation) bool { return op.method == method && op.pattern.MatchString(path) })
}
