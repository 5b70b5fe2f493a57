package access

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// unreachable are addresses that no tenant may have the service call, on a service for which
// loopback is open.
func unreachable() []string {
	return []string{
		"http://api.example.com", "https://10.0.0.1", "https://172.16.0.1", "https://192.168.1.1", "https://100.64.0.1", "https://169.254.169.254",
		"http://169.254.169.254", "https://0.0.0.0", "https://192.0.2.1", "https://198.18.0.1", "https://224.0.0.1", "https://255.255.255.255",
		"https://[::]", "https://[::ffff:10.0.0.1]", "https://[::ffff:a9fe:a9fe]", "https://[64:ff9b::a9fe:a9fe]", "https://[64:ff9b:1::1]", "https://[fd00::1]",
		"https://[fe80::1]", "https://[fec0::1]", "https://[ff02::1]", "https://[2002:7f00:1::]", "https://[2001:db8::1]",
		"https://0x7f.1", "https://0x7f000001", "https://2130706433", "https://127.1", "https://0177.0.0.1", "https://127.0.0.1.", "https://１２７.0.0.1",
		"https://metadata.google.internal", "https://postgres", "https://a.localhost", "https://printer.local", "https://router.home.arpa", "https://x.onion",
		"https://api.example.com:0", "https://api.example.com:65536", "https://-api.example.com", "https://api..example.com", "https://b\u00fccher.example",
		"https://user@api.example.com", "https://user:" + canary + "@api.example.com", "https://api.example.com#x",
		"ftp://api.example.com", "file:///etc/passwd", "javascript:alert(1)", "gopher://api.example.com", "//api.example.com", "https:api.example.com", "https://",
		"https://a.example\\@127.0.0.1", "https://%31%30.0.0.1", "https://api.example.com\r\nX: y",
	}
}

// addressField is a member of a request in which a tenant writes where the service calls.
type addressField struct {
	// field is its method, path and place in the document; "" for one in a provider's own document.
	field string
	// write writes the address. taken reports whether the service would call it then.
	write func(w *world, url string) (a rig.Answer, taken bool)
	// fetched: the service calls it before it answers, so the test writes no public address.
	fetched bool
}

// addressFields lists all of them. One that is new in the document and not here fails the test.
func addressFields(t *testing.T, w *world) map[string]addressField {
	t.Helper()
	user := w.a.User
	call := func(method, path string, body any) (rig.Answer, bool) {
		a := user.Do(method, path, body)
		return a, a.Err == nil && a.Status < http.StatusMultipleChoices
	}
	imported := func(base, servers, paths string) (rig.Answer, bool) {
		document := `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":` + paths + servers + `}`
		body := map[string]any{"slug": "alpha-address", "openapi": json.RawMessage(document)}
		if base != "" {
			body["base_url"] = base
		}
		a := user.Do(http.MethodPost, "/v1/providers", body)
		if a.Err != nil || a.Status >= http.StatusMultipleChoices {
			return a, false
		}
		var report struct {
			Imported int
			Degraded []any // where the provider's server takes the place of an operation's own
		}
		a.Data(t, &report)
		return a, report.Imported > 0 && len(report.Degraded) == 0
	}
	quoted := func(url string) string {
		raw, err := json.Marshal(url)
		require.NoError(t, err)
		return string(raw)
	}
	const (
		operation = `"get":{"operationId":"get","responses":{}}`
		paths     = `{"/a":{` + operation + `}}`
		good      = `,"servers":[{"url":"https://api.example.com"}]`
	)
	moved := "alpha-moved"
	a := user.Do(http.MethodPost, "/v1/providers", map[string]any{
		"slug": moved, "base_url": "https://api.example.com", "openapi": json.RawMessage(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":` + paths + `}`),
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var credential struct{ ID string }
	a = user.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": moved, "type": "bearer", "label": "l", "data": map[string]string{"token": canary}})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a.Data(t, &credential)
	served := "alpha-served"
	withServers := func(more map[string]any) map[string]any {
		more["slug"] = served
		more["openapi"] = json.RawMessage(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"servers":[{"url":"{all}","variables":{"all":{"default":"https://api.example.com"}}}],"paths":` + paths + `}`)
		return more
	}
	elsewhere := func(url string) []map[string]string { return []map[string]string{{"url": "{all}", "base_url": url}} }
	a = user.Do(http.MethodPost, "/v1/providers", withServers(map[string]any{}))
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	// A host has no scheme.
	host := func(url string) []string { return []string{strings.TrimPrefix(url, "https://")} }
	withToken := func(member string, value any) map[string]any {
		return map[string]any{"provider": moved, "type": "bearer", "label": "l", "data": map[string]string{"token": canary}, member: value}
	}
	return map[string]addressField{
		"webhook": {field: "POST /v1/webhooks /url", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/webhooks", map[string]any{"url": url, "events": []string{"custom.address"}})
		}},
		"model provider": {field: "POST /v1/model-providers /base_url", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/model-providers", map[string]any{"slug": "moved-" + uuid.NewString()[:8], "api": "openai", "base_url": url})
		}},
		"webhook that moves": {field: "PATCH /v1/webhooks/{id} /url", write: func(w *world, url string) (rig.Answer, bool) {
			return call(http.MethodPatch, "/v1/webhooks/"+w.a.webhook, map[string]any{"url": url})
		}},
		"provider": {field: "POST /v1/providers /base_url", write: func(_ *world, url string) (rig.Answer, bool) { return imported(url, "", paths) }},
		"provider that moves": {field: "PATCH /v1/providers/{slug} /base_url", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPatch, "/v1/providers/"+moved, map[string]any{"base_url": url})
		}},
		"server of a document": {field: "", write: func(_ *world, url string) (rig.Answer, bool) {
			return imported("", `,"servers":[{"url":`+quoted(url)+`}]`, paths)
		}},
		"server with a variable": {field: "", write: func(_ *world, url string) (rig.Answer, bool) {
			return imported("", `,"servers":[{"url":"{all}","variables":{"all":{"default":`+quoted(url)+`}}}]`, paths)
		}},
		"server of a path": {field: "", write: func(_ *world, url string) (rig.Answer, bool) {
			return imported("", good, `{"/a":{"servers":[{"url":`+quoted(url)+`}],`+operation+`}}`)
		}},
		"server of an operation": {field: "", write: func(_ *world, url string) (rig.Answer, bool) {
			return imported("", good, `{"/a":{"get":{"operationId":"get","responses":{},"servers":[{"url":`+quoted(url)+`}]}}}`)
		}},
		"server that an import moves": {field: "POST /v1/providers /servers/-/base_url", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/providers", withServers(map[string]any{"servers": elsewhere(url)}))
		}},
		"server that moves": {field: "PATCH /v1/providers/{slug} /servers/-/base_url", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPatch, "/v1/providers/"+served, map[string]any{"servers": elsewhere(url)})
		}},
		"address of a document": {field: "POST /v1/providers /openapi_url", fetched: true, write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/providers", map[string]any{"slug": "alpha-fetched", "openapi_url": url})
		}},
		"variable of an import": {field: "POST /v1/providers /server_variables", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/providers", withServers(map[string]any{"servers": []any{}, "server_variables": map[string]string{"all": url}}))
		}},
		"variable that changes": {field: "PATCH /v1/providers/{slug} /server_variables", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPatch, "/v1/providers/"+served, map[string]any{"servers": []any{}, "server_variables": map[string]string{"all": url}})
		}},
		"origin of a credential": {field: "POST /v1/credentials /origin", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/credentials", withToken("origin", url))
		}},
		"origin of a credential that moves": {field: "PATCH /v1/credentials/{id} /origin", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPatch, "/v1/credentials/"+credential.ID, map[string]any{"origin": url})
		}},
		"hosts of a credential": {field: "POST /v1/credentials /allowed_hosts", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPost, "/v1/credentials", withToken("allowed_hosts", host(url)))
		}},
		"hosts of a credential that change": {field: "PATCH /v1/credentials/{id} /allowed_hosts", write: func(_ *world, url string) (rig.Answer, bool) {
			return call(http.MethodPatch, "/v1/credentials/"+credential.ID, map[string]any{"allowed_hosts": host(url)})
		}},
	}
}

// namesAddress is what members are called in which an address may be written.
var namesAddress = regexp.MustCompile(`(?i)ur[il]|origin|host|endpoint|server|link`)

// notCalled are such members in which the service is told no address that it calls.
var notCalled = []string{
	"POST /v1/api-keys /allowed_origins", "PATCH /v1/api-keys/{id} /allowed_origins", // compared with what browsers send
	"POST /v1/providers /servers", "PATCH /v1/providers/{slug} /servers", // a list, whose members have addresses
	"POST /v1/providers /servers/-/url", "PATCH /v1/providers/{slug} /servers/-/url", // names a server of the document
}

// TestNoTenantWritesAnAddressThatIsNotPublic walks the table for each field in which a tenant writes an
// address. Each field takes a public address, so that the table is known to reach it.
func TestNoTenantWritesAnAddressThatIsNotPublic(t *testing.T) { //nolint:tparallel // its parts write the same rows
	t.Parallel()
	w := theWorld(t)
	fields := addressFields(t, w)
	var known []string
	for _, f := range fields {
		known = append(known, f.field)
	}
	for _, member := range w.doc.requestMembers(t) {
		if namesAddress.MatchString(member[strings.LastIndexByte(member, ' '):]) && !slices.Contains(notCalled, member) {
			require.Contains(t, known, member, "the member is in no table: add it to addressFields, or to notCalled")
		}
	}
	for name, f := range fields { //nolint:paralleltest // they write the same rows
		t.Run(name, func(t *testing.T) {
			const public = "https://api.example.com"
			if !f.fetched {
				a, taken := f.write(w, public)
				require.True(t, taken, "%s", a.Body)
			}
			for _, url := range unreachable() {
				if strings.Contains(f.field, "allowed_hosts") && !strings.HasPrefix(url, "https://") || url == "https://" {
					continue // a host has no scheme, and "" is none
				}
				if url == "//api.example.com" && (name == "server of a path" || name == "server of an operation") {
					continue // relative: it is the provider's own server
				}
				a, taken := f.write(w, url)
				require.NoError(t, a.Err)
				require.False(t, taken, "%q: %s", url, a.Body)
				require.Less(t, a.Status, http.StatusInternalServerError, "%q: %s", url, a.Body)
				require.NotContains(t, string(a.Body), canary, "%q", url)
				if f.field != "" && a.Status != http.StatusBadRequest {
					require.Equal(t, "URL_NOT_ALLOWED", a.Code(t), "%q", url)
				}
			}
			if !f.fetched {
				a, taken := f.write(w, public)
				require.True(t, taken, "%s", a.Body)
			}
		})
	}
}

// requestMembers returns the members of all JSON bodies that requests have, at any depth but not
// below what callers name themselves: "POST /v1/webhooks /url".
func (d *document) requestMembers(t *testing.T) (members []string) {
	t.Helper()
	var walk func(op operation, node map[string]any, place string, depth int)
	walk = func(op operation, node map[string]any, place string, depth int) {
		node = d.deref(node)
		if depth > 8 {
			return
		}
		properties, _ := node["properties"].(map[string]any)
		for name, inner := range properties {
			members = append(members, op.method+" "+op.path+" "+place+"/"+name)
			if node, ok := inner.(map[string]any); ok {
				walk(op, node, place+"/"+name, depth+1)
			}
		}
		for _, group := range []string{"allOf", "anyOf", "oneOf"} {
			parts, _ := node[group].([]any)
			for _, part := range parts {
				if node, ok := part.(map[string]any); ok {
					walk(op, node, place, depth+1)
				}
			}
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(op, items, place+"/-", depth+1)
		}
	}
	for _, op := range d.ops {
		if schema := d.body(op); schema != nil {
			walk(op, schema, "", 0)
		}
	}
	require.Contains(t, members, "POST /v1/webhooks /url")
	return members
}
