package access

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutation is one thing wrong with an otherwise good body.
type mutation struct {
	name string
	body any
	// must is false where taking the body is as right as refusing it.
	must bool
}

// remove is the mark of a member that is left out.
type remove struct{}

// TestBodyAgainstTheDocumentIsRefused breaks each member of each body in every way
// that the document rules out.
func TestBodyAgainstTheDocumentIsRefused(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "bodies")
	cases := 0
	for _, op := range w.doc.ops {
		schema := w.doc.body(op)
		if schema == nil || op.path == "/v1/maps/validate" { // which says what is wrong in a 200
			continue
		}
		for _, base := range w.doc.exampleBodies(op) {
			for _, m := range w.doc.mutations(schema, base) {
				r := own.request(op)
				r.body = encode(t, m.body)
				got := w.call(t, r)
				cases++
				if m.must {
					require.Contains(t, []int{400, 401, 422}, got.Status, "%s with %s is taken: %s\nsent %s", op.id(), m.name, got.Body, clip(r.body))
				}
			}
			if op.path == "/v1/providers" { // large examples test nothing further
				break
			}
		}
	}
	require.Greater(t, cases, 200)
	t.Logf("%d cases", cases)
}

// request is a call of op that names the tenant's own resources.
func (own *tenant) request(op operation) request {
	ids := map[string]string{
		"/v1/executions/": own.execution, "/v1/results/": own.execution, "/v1/approvals/": own.approval, "/v1/policies/": own.policy, "/v1/grants/": own.grant, "/v1/kill-switch/": own.killSwitch, "/v1/model-providers/": own.modelProvider, "/v1/customers/": own.customer, "/v1/events/": own.event, "/v1/webhooks/": own.webhook, "/v1/maps/": own.mapID, "/v1/agents/": own.agent, "/v1/providers/": own.provider,
		"/v1/credentials/": own.credential, "/v1/api-keys/": someID, "/v1/users/": someID, "/v1/auth/sessions/": someID, "/v1/runtime/actions/catalog/": own.provider + ":list_orders",
	}
	full := strings.NewReplacer("{delivery}", own.delivery, "{fact_id}", own.fact, "/versions/{version}", "/versions/1").Replace(op.path)
	path, tail, has := strings.Cut(full, "{")
	if has {
		_, tail, _ = strings.Cut(tail, "}")
		path += ids[path] + tail
	}
	return request{method: op.method, path: path, header: own.credentialFor(op)}
}

// credentialFor is what opens op: the key at the runtime, else the token.
func (own *tenant) credentialFor(op operation) http.Header {
	if strings.HasPrefix(op.path, "/v1/runtime/") {
		return headers("X-API-Key", own.Runtime.Key)
	}
	if strings.HasSuffix(op.path, "/message") || strings.HasSuffix(op.path, "/goals") {
		return headers("X-API-Key", own.talker)
	}
	if op.method == http.MethodPost && op.path == "/v1/events" {
		return headers("X-API-Key", own.sender)
	}
	return bearer(own.token)
}

// exampleBodies returns the document's examples of op's body.
func (d *document) exampleBodies(op operation) []map[string]any {
	media := object(object(d.deref(object(op.node["requestBody"]))["content"])["application/json"])
	examples := object(media["examples"])
	var out []map[string]any
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		out = append(out, object(object(examples[name])["value"]))
	}
	if len(out) == 0 {
		out = append(out, d.invented(d.deref(object(media["schema"]))))
	}
	return out
}

// invented is a body made of the required members alone, all of them strings so far.
func (d *document) invented(schema map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range array(schema["required"]) {
		out[name.(string)] = "x" //nolint:forcetypeassert // names are strings
	}
	return out
}

// mutations walks the members of an object schema and breaks each.
func (d *document) mutations(schema, base map[string]any) []mutation {
	var out []mutation
	add := func(path []string, must bool, name string, value any) {
		out = append(out, mutation{name: "/" + strings.Join(path, "/") + " " + name, body: set(base, path, value), must: must})
	}
	var walk func(schema map[string]any, path []string)
	walk = func(schema map[string]any, path []string) {
		required := array(schema["required"])
		properties := object(schema["properties"])
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			at := append(slices.Clone(path), name)
			member := d.flat(object(properties[name]))
			needed := slices.Contains(required, any(name)) && has(base, at[:len(at)-1])
			if needed {
				add(at, true, "missing", remove{})
			}
			breakMember(member, needed, func(must bool, name string, value any) { add(at, must, name, value) })
			if len(path) < 2 && has(base, at) {
				walk(member, at)
			}
		}
	}
	walk(d.flat(schema), nil)
	for name, value := range map[string]any{"an array": []any{}, "a string": canary, "a number": 7, "null": nil, "true": true} {
		out = append(out, mutation{name: "the body is " + name, body: value, must: true})
	}
	return out
}

// flat follows a reference and keeps what stands beside it.
func (d *document) flat(schema map[string]any) map[string]any {
	out := maps.Clone(d.deref(schema))
	for name, value := range schema {
		if name != "$ref" {
			out[name] = value
		}
	}
	return out
}

func breakMember(schema map[string]any, needed bool, add func(must bool, name string, value any)) {
	kind, _ := schema["type"].(string)
	wrong := map[string]any{"string": canary, "integer": 7, "boolean": true, "array": []any{canary}, "object": map[string]any{"a": canary}}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		if kind != "" && name != kind {
			add(true, "of type "+name, wrong[name])
		}
	}
	kinds, _ := schema["type"].([]any)
	add(needed && !slices.Contains(kinds, any("null")), "null", nil)
	number := func(name string) (int, bool) {
		n, is := schema[name].(json.Number)
		if !is {
			return 0, false
		}
		v, err := n.Int64()
		return int(v), err == nil
	}
	if n, is := number("minLength"); is && n > 0 {
		add(true, "too short", strings.Repeat("x", n-1))
	}
	if n, is := number("maxLength"); is {
		add(true, "too long", canary+strings.Repeat("x", n))
	}
	if _, is := schema["pattern"]; is {
		add(true, "of another form", canary+" \u00e9")
	}
	if schema["enum"] != nil {
		add(true, "not on the list", canary)
	}
	if schema["format"] == "date-time" {
		for _, at := range noTimes() {
			add(true, "at "+at, at)
		}
	}
	if n, is := number("minItems"); is && n > 0 {
		add(true, "too few", []any{})
	}
	if n, is := number("maxItems"); is {
		items := make([]any, n+1)
		for i := range items {
			items[i] = fmt.Sprintf("https://h%d.example.com", i)
		}
		add(true, "too many", items)
	}
	if kind == "array" {
		add(true, "with a number", []any{7})
		add(true, "with null", []any{nil})
		add(true, "with an object", []any{map[string]any{}})
		add(true, "with a text that is none of it", []any{canary + " \u00e9"})
	}
}

// noTimes are texts that are no time, and times that are in no year of JSON or near its last one in UTC.
func noTimes() []string {
	return []string{
		"yesterday", "2026-13-45T00:00:00Z", "2026-01-31", "1769850000", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.9999999Z", "9999-01-01T00:00:00Z",
		"10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "292277026596-12-04T15:30:08Z", canary,
	}
}

// has reports whether the base has something at path.
func has(base map[string]any, path []string) bool {
	at := any(base)
	for _, name := range path {
		members := object(at)
		if _, is := members[name]; !is {
			return false
		}
		at = members[name]
	}
	return true
}

// set returns a copy of base with another value at path.
func set(base map[string]any, path []string, value any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	switch _, gone := value.(remove); {
	case len(path) > 1:
		out[path[0]] = set(object(out[path[0]]), path[1:], value)
	case gone:
		delete(out, path[0])
	default:
		out[path[0]] = value
	}
	return out
}

// anything are texts that break readers, as they stand in a URL.
func anything() []string {
	return []string{
		"%00", "a%00b", "%ff", "%c3%28", "%ed%a0%80", "%f0%9f%92%a5", "%E2%80%AE", "%0d%0aX-Evil:%201", "%2e%2e", "..%2f..%2fetc%2fpasswd",
		"%2F", "%5C", "%25", "%2541", "%27%20OR%201=1--", "%22%3E%3Cscript%3E", "%7B%7B7*7%7D%7D", "null", "undefined", "-1", "0",
		"00000000-0000-0000-0000-000000000000", "{0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90}", "*", "%20", "a%20b", "~", "%EF%BC%9A",
		strings.Repeat("a", 300), strings.Repeat("%F0%9F%92%A5", 300), strings.Repeat("x", 8000), canary, "%", "%zz",
	}
}

func TestPathWithUnknownIDIsNotFound(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "paths")
	cases := 0
	for _, op := range w.doc.ops {
		start, tail, has := strings.Cut(op.path, "{")
		if !has {
			continue
		}
		_, tail, _ = strings.Cut(tail, "}")
		for _, id := range anything() {
			if _, err := url.Parse(w.APIURL + "/" + id); err != nil {
				continue // no request can be made of it; see TestRequestMalformedIsRefusedByTheServer
			}
			r := request{method: op.method, path: start + id + tail, header: both(own.credentialFor(op), headers("Idempotency-Key", "k"))}
			if bodies := w.doc.body(op); bodies != nil {
				r.body = encode(t, w.doc.exampleBodies(op)[0])
				if strings.HasSuffix(op.path, "/rotate") {
					r.body = []byte(`{"data":{"key":"x"}}`)
				}
			}
			got := w.call(t, r)
			require.Contains(t, []int{400, 404}, got.Status, "%s with %s: %s", op.id(), id, got.Body)
			cases++
		}
	}
	t.Logf("%d cases", cases)
}

func TestQueryAgainstTheDocumentIsRefused(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "queries")
	cases := 0
	for _, op := range w.doc.ops {
		if op.path == eventStream {
			continue // one that is admitted does not end
		}
		for _, p := range op.params {
			if p["in"] != "query" {
				continue
			}
			name, _ := p["name"].(string)
			schema := w.doc.flat(object(p["schema"]))
			for _, value := range badValues(name, schema) {
				r := own.request(op)
				r.path += "?" + name + "=" + value
				got := w.call(t, r)
				require.Equal(t, http.StatusBadRequest, got.Status, "%s: %s is taken: %s", op.id(), r.path, clip(got.Body))
				cases++
			}
			for _, value := range anything() {
				r := own.request(op)
				r.path += "?" + name + "=" + value
				got := w.call(t, r)
				want := []int{200, 400, 404}
				if strings.Contains(value, "%00") || strings.Contains(value, "%ff") {
					want = []int{400}
				}
				require.Contains(t, want, got.Status, "%s: %s", op.id(), r.path)
				cases++
			}
		}
	}
	t.Logf("%d cases", cases)
}

// badValues are query values that the schema rules out.
func badValues(name string, schema map[string]any) []string {
	switch {
	case schema["type"] == "integer":
		return []string{"abc", "-1", "1e3", "1.5", "0x10", "%2B1x", "%D9%A3", "1%201", "-99999999999999999999", "1_000"}
	case schema["type"] == "boolean":
		return []string{"maybe", "2", "tru", canary}
	case schema["enum"] != nil:
		return []string{canary, "%00", "low,high"}
	case schema["format"] == "date-time":
		var out []string
		for _, at := range noTimes() {
			out = append(out, url.QueryEscape(at))
		}
		return out
	case name == "cursor":
		return []string{canary, "!!!!", "AAAA", "%00", strings.Repeat("A", 5000), "MDAwMA==", "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"}
	case name == "verb":
		return []string{"none", "a%3Ab%3Ac", "a%EF%BC%9Ab", "a%20:b", ":", canary}
	}
	var out []string
	if n, is := schema["maxLength"].(json.Number); is {
		if most, err := n.Int64(); err == nil {
			out = append(out, strings.Repeat("x", int(most)+1))
		}
	}
	if _, is := schema["pattern"]; is {
		out = append(out, "%C3%A9%20")
	}
	return out
}
