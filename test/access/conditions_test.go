package access

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// showsObject reports whether the operation reads one object: a file, a list or a page is none.
func (d *document) showsObject(op operation) bool {
	schema := object(object(object(d.deref(object(object(op.node["responses"])["200"]))["content"])["application/json"])["schema"])
	data := d.deref(object(object(d.deref(schema)["properties"])["data"]))
	_, paged := object(d.deref(schema)["properties"])["pagination"]
	export := strings.HasSuffix(op.path, "/export")
	return op.method == http.MethodGet && strings.HasPrefix(op.path, "/v1/") && !export && !paged && schema != nil && data["type"] != "array"
}

// objects are the paths of objects that the tenant has, by the path of the document.
func (own *tenant) objects(t *testing.T) map[string]string {
	t.Helper()
	var invited rig.Invitation
	own.User.Invite(own.name+"-one@example.com", "member").Data(t, &invited)
	_, unused := own.newKey(t, map[string]any{"name": "unused"})
	return map[string]string{
		"/v1/runtime/actions/catalog":             "/v1/runtime/actions/catalog?limit=2",
		"/v1/runtime/actions/catalog/{verb}":      "/v1/runtime/actions/catalog/" + own.provider + ":list_orders",
		"/v1/executions/{id}":                     "/v1/executions/" + own.execution,
		"/v1/approvals/counts":                    "/v1/approvals/counts",
		"/v1/approvals/{id}":                      "/v1/approvals/" + own.approval,
		"/v1/grants/{id}":                         "/v1/grants/" + own.grant,
		"/v1/model-providers/{id}":                "/v1/model-providers/" + own.modelProvider,
		"/v1/kill-switch/{id}":                    "/v1/kill-switch/" + own.killSwitch,
		"/v1/customers/{id}/erasure":              "/v1/customers/" + own.erased + "/erasure",
		"/v1/customers/{id}":                      "/v1/customers/" + own.customer,
		"/v1/customers/{id}/memory/{fact_id}":     "/v1/customers/" + own.customer + "/memory/" + own.fact,
		"/v1/policies/{id}":                       "/v1/policies/" + own.policy,
		"/v1/policies/{id}/coverage":              "/v1/policies/" + own.policy + "/coverage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z",
		"/v1/governance/masking":                  "/v1/governance/masking",
		"/v1/audit/verify":                        "/v1/audit/verify",
		"/v1/audit/keys":                          "/v1/audit/keys",
		"/v1/providers/{slug}":                    "/v1/providers/" + own.provider,
		"/v1/providers/{slug}/document":           "/v1/providers/" + own.provider + "/document",
		"/v1/providers/{slug}/verbs":              "/v1/providers/" + own.provider + "/verbs?limit=3",
		"/v1/credentials/{id}":                    "/v1/credentials/" + own.credential,
		"/v1/api-keys/{id}":                       "/v1/api-keys/" + unused,
		"/v1/me":                                  "/v1/me",
		"/v1/rate-limits":                         "/v1/rate-limits",
		"/v1/maps/{id}":                           "/v1/maps/" + own.mapID,
		"/v1/maps/{id}/versions/{version}":        "/v1/maps/" + own.mapID + "/versions/1",
		"/v1/agents/{id}":                         "/v1/agents/" + own.agent,
		"/v1/agents/{id}/versions/{version}":      "/v1/agents/" + own.agent + "/versions/1",
		"/v1/agents/{id}/versions/{version}/diff": "/v1/agents/" + own.agent + "/versions/1/diff",
		"/v1/agents/{id}/sessions/{sid}":          "/v1/agents/" + own.agent + "/sessions/" + own.name + "-session",
		"/v1/budgets":                             "/v1/budgets",
		"/v1/webhooks/{id}":                       "/v1/webhooks/" + own.webhook,
		"/v1/webhooks/{id}/deliveries/{delivery}": "/v1/webhooks/" + own.webhook + "/deliveries/" + own.delivery,
		"/v1/events/{id}":                         "/v1/events/" + own.event,
		"/v1/users/{id}":                          "/v1/users/" + invited.ID,
	}
}

// as sends a call as the tenant's owner, or with its key where only keys may call.
func (w *world) as(t *testing.T, own *tenant, method, path, body string, header ...string) rig.Answer {
	t.Helper()
	h := bearer(own.token)
	if strings.HasPrefix(path, "/v1/runtime/") {
		h = headers("X-API-Key", own.Runtime.Key)
	}
	r := request{method: method, path: path, header: both(h, headers(header...))}
	if body != "" {
		r.body = []byte(body)
	}
	return w.call(t, r)
}

func TestObjectsAnswerConditionalGets(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "zeta")
	paths := own.objects(t)
	seen := 0
	for _, op := range w.doc.ops {
		if !w.doc.showsObject(op) {
			continue
		}
		path, has := paths[op.path]
		require.True(t, has, "%s shows an object that this test does not read", op.id())
		read := func(header ...string) rig.Answer { return w.as(t, own, http.MethodGet, path, "", header...) }
		tagOf := func() string {
			a := read()
			require.Equal(t, http.StatusOK, a.Status, "%s: %s", path, a.Body)
			return a.Header.Get("ETag")
		}
		// An answer counts where the object is the same before and after it: the sealer changes what
		// verify finds.
		get := func(name, value string) (a rig.Answer, tag string) {
			require.Eventually(t, func() bool {
				tag = tagOf()
				a = read(name, strings.ReplaceAll(value, "TAG", tag))
				return tagOf() == tag
			}, patience, time.Millisecond, path)
			return a, tag
		}
		a, tag := get("If-None-Match", `"other", W/TAG`)
		require.Equal(t, http.StatusNotModified, a.Status, "%s: the weak comparison", path)
		require.Regexp(t, `^"[!#-~]+"$`, tag, path)
		require.Empty(t, a.Body)
		require.Equal(t, tag, a.Header.Get("ETag"))
		for want, condition := range map[string][2]string{
			"304 ":                    {"If-None-Match", "TAG"},
			"304 a":                   {"If-None-Match", "*"},
			"200 ":                    {"If-None-Match", `"other"`},
			"200 b":                   {"If-Match", `"other", TAG`},
			"200 c":                   {"If-Match", "*"},
			"412 PRECONDITION_FAILED": {"If-Match", `"other"`},
			"412 weak":                {"If-Match", "W/TAG"},
			"400 VALIDATION_ERROR":    {"If-Match", "other"},
			"400 open":                {"If-None-Match", `"other`},
		} {
			a, _ := get(condition[0], condition[1])
			require.Equal(t, want[:3], outcome(a.Status, "")[:3], "%s %v: %s", path, condition, a.Body)
		}
		seen++
	}
	require.Len(t, paths, seen)
}

func TestChangesAreRefusedUnlessTheObjectIsAsExpected(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "eta")
	paths := own.objects(t)
	bodies := map[string]string{
		"PUT /v1/policies/{id}":                      aPolicy,
		"PUT /v1/maps/{id}":                          aMap,
		"DELETE /v1/maps/{id}":                       "",
		"PATCH /v1/agents/{id}":                      `{"name":"changed"}`,
		"DELETE /v1/agents/{id}":                     "",
		"DELETE /v1/agents/{id}/sessions/{sid}":      "",
		"PATCH /v1/policies/{id}":                    `{"priority":7}`,
		"PUT /v1/governance/masking":                 `{"paths":[{"verb":"*","path":"args.note"}]}`,
		"PUT /v1/budgets":                            `{"model_tokens":null,"money_micros":7,"write_calls":null}`,
		"PUT /v1/rate-limits":                        `{"requests_per_minute":1000000,"requests_per_hour":1000000,"requests_per_day":999999}`,
		"PATCH /v1/grants/{id}":                      `{"max_uses":1}`,
		"PATCH /v1/customers/{id}":                   `{"name":"changed"}`,
		"PATCH /v1/credentials/{id}":                 `{"label":"changed"}`,
		"PATCH /v1/users/{id}":                       `{"name":"changed"}`,
		"PATCH /v1/api-keys/{id}":                    `{"name":"changed"}`,
		"PATCH /v1/webhooks/{id}":                    `{"description":"changed"}`,
		"DELETE /v1/webhooks/{id}":                   "",
		"DELETE /v1/api-keys/{id}":                   "",
		"DELETE /v1/policies/{id}":                   "",
		"DELETE /v1/customers/{id}":                  "",
		"PATCH /v1/customers/{id}/memory/{fact_id}":  `{"profile":true}`,
		"DELETE /v1/customers/{id}/memory/{fact_id}": "",
		"DELETE /v1/grants/{id}":                     "",
		"PATCH /v1/model-providers/{id}":             `{"dialect":{"max_tokens_field":"max_tokens"}}`,
		"DELETE /v1/model-providers/{id}":            "",
		"DELETE /v1/kill-switch/{id}":                "",
		"DELETE /v1/credentials/{id}":                "",
		"DELETE /v1/users/{id}":                      "",
		"DELETE /v1/providers/{slug}":                "",
		"PATCH /v1/providers/{slug}":                 `{"auth":{"type":"bearer"}}`,
	}
	ops := slices.Clone(w.doc.ops)
	slices.SortStableFunc(ops, func(a, b operation) int { return strings.Count(b.path, "/") - strings.Count(a.path, "/") }) // parts before the whole
	changes := 0
	for _, deletes := range []bool{false, true} { // what is deleted cannot be changed
		for _, op := range ops {
			path, shown := paths[op.path]
			if !shown || op.method == http.MethodGet || op.method == http.MethodPost || deletes != (op.method == http.MethodDelete) {
				continue
			}
			body, has := bodies[op.id()]
			require.True(t, has, "%s changes an object that this test does not change", op.id())
			tag := w.as(t, own, http.MethodGet, path, "").Header.Get("ETag")
			for _, condition := range [][]string{
				{"If-Match", `"other"`}, {"If-Match", `"other", W/` + tag}, {"If-None-Match", tag}, {"If-None-Match", "W/" + tag}, {"If-None-Match", "*"},
			} {
				a := w.as(t, own, op.method, path, body, condition...)
				require.Equal(t, "412 PRECONDITION_FAILED", outcome(a.Status, code(t, a)), "%s %v: %s", op.id(), condition, a.Body)
			}
			a := w.as(t, own, op.method, path, body, "If-Match", tag[1:])
			require.Equal(t, "400 VALIDATION_ERROR", outcome(a.Status, code(t, a)), "%s: %s", op.id(), a.Body)
			require.Equal(t, tag, w.as(t, own, http.MethodGet, path, "").Header.Get("ETag"), "%s: something has changed", op.id())

			a = w.as(t, own, op.method, path, body, "If-Match", `"other", `+tag)
			require.Equal(t, http.StatusOK, a.Status, "%s: %s", op.id(), a.Body)
			if deletes {
				require.JSONEq(t, `{"success":true,"data":{"deleted":true}}`, string(a.Body), op.id())
				a = w.as(t, own, op.method, path, body)
				require.Equal(t, http.StatusNotFound, a.Status, "%s a second time: %s", op.id(), a.Body)
			} else {
				require.Equal(t, w.as(t, own, http.MethodGet, path, "").Header.Get("ETag"), a.Header.Get("ETag"), op.id())
			}
			changes++
		}
	}
	require.Len(t, bodies, changes)
}

// A key that is in use could otherwise be changed under no condition: each call may note a use
// between the reading and the change.
func TestUseKeepsTheTag(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "theta")
	_, key := own.newKey(t, map[string]any{"name": "in use"})
	admin := w.admin(t)
	for path, c := range map[string]struct{ table, id, field, change string }{
		"/v1/api-keys/":    {"api_keys", key, "lastUsedAt", `{"name":"changed"}`},
		"/v1/credentials/": {"credentials", own.credential, "last_used_at", `{"label":"changed"}`},
	} {
		path += c.id
		tag := ""
		for _, at := range []string{"2027-01-02T03:04:05Z", "2027-01-02T03:05:05Z"} {
			_, err := admin.Exec(t.Context(), "UPDATE "+c.table+" SET last_used_at = $1 WHERE id = $2", at, c.id)
			require.NoError(t, err)
			a := w.as(t, own, http.MethodGet, path, "")
			require.Contains(t, string(a.Body), `"`+c.field+`":"`+at+`"`)
			if tag != "" {
				require.Equal(t, tag, a.Header.Get("ETag"), path)
			}
			tag = a.Header.Get("ETag")
		}
		a := w.as(t, own, http.MethodPatch, path, c.change, "If-Match", tag)
		require.Equal(t, http.StatusOK, a.Status, "%s: %s", path, a.Body)
		require.NotEqual(t, tag, a.Header.Get("ETag"), path)
	}
}
