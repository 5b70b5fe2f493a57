package access

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile is a document that someone sends to do harm, or just a broken one.
type hostile struct {
	document string
	baseURL  string
	// want is the answer; "" accepts any that is no fault of ours, for a document
	// that can be taken as well as refused.
	want string
	// imported is how many verbs come of it where it is taken.
	imported int
}

// operations wraps paths into an OpenAPI document.
func openapi(paths, more string) string {
	return `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":` + paths + more + `}`
}

func servers(url string) string { return `,"servers":[{"url":"` + url + `"}]` }

const get = `{"get":{"operationId":"get","responses":{}}}`

func manyPaths(n int) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"/p%d":{"get":{}},`, i)
	}
	return b.String()[:b.Len()-1] + "}"
}

// parameter is a document with one operation that has the schema as a parameter.
func parameter(schema, more string) string {
	return openapi(`{"/a":{"get":{"operationId":"a","parameters":[{"name":"p","in":"query","schema":`+schema+`}],"responses":{}}}}`, more)
}

// wide is a chain of schemas, each of which contains the next twice: 2^40 nodes.
func wide() string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `"s%d":{"type":"object","properties":{"l":{"$ref":"#/components/schemas/s%d"},"r":{"$ref":"#/components/schemas/s%d"}}},`, i, i+1, i+1)
	}
	return `,"components":{"schemas":{` + b.String() + `"s40":{"type":"string"}}}`
}

func hostileDocuments(listener string) map[string]hostile {
	const (
		invalid = "400 VALIDATION_ERROR"
		noJSON  = "400 INVALID_JSON"
		badURL  = "422 URL_NOT_ALLOWED"
		created = "201 "
		// What is no usable URL may be said of the document or of the address.
		unusable = invalid + " or " + badURL
	)
	paths := `{"/a":` + get + `}`
	ref := func(to string) string { return parameter(`{"$ref":"`+to+`"}`, "") }
	return map[string]hostile{
		"no OpenAPI":             {document: `{"hello":"` + canary + `"}`, want: invalid},
		"empty":                  {document: `{}`, want: invalid},
		"an array":               {document: `[]`, want: invalid},
		"text":                   {document: `"` + canary + `"`, want: invalid},
		"Swagger 1":              {document: `{"swagger":"1.2","info":{"title":"x","version":"1"},"paths":{}}`, want: invalid},
		"OpenAPI 4":              {document: `{"openapi":"4.0.0","info":{"title":"x","version":"1"},"paths":{}}`, want: invalid},
		"version a number":       {document: `{"openapi":3.1,"paths":{"/a":` + get + `}}`, want: created, imported: 1},
		"paths an array":         {document: openapi(`[]`, ""), want: invalid},
		"operation a text":       {document: openapi(`{"/a":{"get":"`+canary+`"}}`, ""), want: created},
		"path without slash":     {document: openapi(`{"a":`+get+`}`, ""), want: ""},
		"path with ..":           {document: openapi(`{"/../../admin":`+get+`}`, ""), want: ""},
		"path with a host":       {document: openapi(`{"//evil.example.com/a":`+get+`,"@evil.example.com":{"get":{}}}`, ""), want: ""},
		"schema of itself":       {document: parameter(`{"$ref":"#/components/schemas/a"}`, `,"components":{"schemas":{"a":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/a"}}}}}`), want: created, imported: 1},
		"reference to itself":    {document: parameter(`{"$ref":"#/components/schemas/a"}`, `,"components":{"schemas":{"a":{"$ref":"#/components/schemas/a"}}}`), want: created},
		"references in a ring":   {document: parameter(`{"$ref":"#/components/schemas/a"}`, `,"components":{"schemas":{"a":{"allOf":[{"$ref":"#/components/schemas/b"}]},"b":{"allOf":[{"$ref":"#/components/schemas/a"}]}}}`), want: created},
		"path of itself":         {document: openapi(`{"/a":{"$ref":"#/paths/~1a"}}`, ""), want: created},
		"schemas that double":    {document: parameter(`{"$ref":"#/components/schemas/s0"}`, wide()), want: ""},
		"reference to a file":    {document: ref("file:///etc/passwd"), want: created},
		"reference to a URL":     {document: ref(listener + "/schema.json"), want: created},
		"reference to a path":    {document: ref("../../../../etc/passwd#/root"), want: created},
		"reference to nothing":   {document: ref("#/components/schemas/none"), want: created},
		"reference beyond reach": {document: ref("#/paths/~1a/get/parameters/99999999999999999999"), want: created},
		"100,000 paths":          {document: openapi(manyPaths(100_000), ""), want: invalid},
		"depth 10,000":           {document: openapi(`{"/a":`+deep(10_000)+`}`, ""), want: noJSON},
		"deep schema":            {document: parameter(strings.Repeat(`{"items":`, 50)+`{}`+strings.Repeat("}", 50), ""), want: ""},
		"one name twice":         {document: openapi(`{"/a":`+get+`,"/b":`+get+`,"/c":{"post":{"operationId":"GET"}}}`, ""), want: created, imported: 3},
		"names that say nothing": {document: openapi(`{"/a":{"get":{"operationId":"::__"}},"/b":{"get":{"operationId":"日本語"}},"/c":{"get":{"operationId":"`+strings.Repeat("n", 5000)+`"}}}`, ""), want: created},
		"public server by http":  {document: openapi(paths, servers("http://api.example.com")), want: badURL},
		"metadata service":       {document: openapi(paths, servers("http://169.254.169.254/latest")), want: badURL},
		"metadata by https":      {document: openapi(paths, servers("https://169.254.169.254/latest")), want: badURL},
		"private network":        {document: openapi(paths, servers("https://10.0.0.1")), want: badURL},
		"mapped private address": {document: openapi(paths, servers("https://[::ffff:10.0.0.1]")), want: badURL},
		"unique local address":   {document: openapi(paths, servers("https://[fd00::1]")), want: badURL},
		"server with a password": {document: openapi(paths, servers("https://user:"+canary+"@api.example.com")), want: unusable},
		"server a file":          {document: openapi(paths, servers("file:///etc/passwd")), want: unusable},
		"server a script":        {document: openapi(paths, servers("javascript:alert(1)")), want: unusable},
		"server with a fragment": {document: openapi(paths, servers("https://api.example.com/#"+canary)), want: unusable},
		"base URL of metadata":   {document: openapi(paths, ""), baseURL: "http://169.254.169.254", want: badURL},
		"base URL with password": {document: openapi(paths, ""), baseURL: "https://u:" + canary + "@api.example.com", want: unusable},
		"base URL that is none":  {document: openapi(paths, ""), baseURL: "::" + canary, want: ""},
		"bad server at one path": {document: openapi(`{"/a":{"servers":[{"url":"http://169.254.169.254"}],"get":{"operationId":"a"}}}`, servers("https://api.example.com")), want: ""},
		"no server":              {document: openapi(paths, ""), baseURL: "-", want: invalid},
		"catastrophic pattern":   {document: parameter(`{"type":"string","pattern":"^(a+)+$"}`, ""), want: created},
		"pattern of 1 MB":        {document: parameter(`{"type":"string","pattern":"`+strings.Repeat("a?", 500_000)+`"}`, ""), want: ""},
		"pattern that explodes":  {document: parameter(`{"type":"string","pattern":"((a{1000}){1000}){1000}"}`, ""), want: created},
		"pattern that is none":   {document: parameter(`{"type":"string","pattern":"(("}`, ""), want: created},
		"number beyond all":      {document: parameter(`{"type":"integer","minimum":1e999999999}`, ""), want: noJSON},
		"numbers at the edge":    {document: parameter(`{"type":"integer","minimum":-1e400,"maximum":1e400,"multipleOf":1e-400}`, ""), want: created},
		"lengths beyond all":     {document: parameter(`{"type":"string","minLength":1e300,"maxLength":-1}`, ""), want: created},
		"an enum of 100,000":     {document: parameter(`{"enum":[`+strings.Repeat(`"`+canary+`",`, 99_999)+`1]}`, ""), want: ""},
		"title of 1 MB":          {document: strings.Replace(openapi(paths, servers("https://api.example.com")), `"title":"x"`, `"title":"`+strings.Repeat("t", 1<<20)+`"`, 1), want: ""},
		"risk that is none":      {document: openapi(`{"/a":{"delete":{"operationId":"a","x-agent-runtime":{"risk_level":"none","operation_type":7,"domain":"*","idempotency":"header:\r\n"}}}}`, ""), want: created},
		"headers as parameters":  {document: openapi(`{"/a":{"get":{"operationId":"a","parameters":[{"name":"Authorization","in":"header","schema":{}},{"name":"Host","in":"header","schema":{}},{"name":"X\r\nY","in":"header","schema":{}}]}}}`, ""), want: created},
		"security of no kind":    {document: openapi(paths, `,"components":{"securitySchemes":{"a":{"type":"`+canary+`"},"b":7,"c":{"$ref":"#/components/securitySchemes/c"}}},"security":[{"a":[]},{"c":[]},7]`), want: ""},
	}
}

func TestImportHostileDocumentDoesNoHarm(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "hostile")
	var fetched atomic.Int64
	listener := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	t.Cleanup(func() { // after all documents
		listener.Close()
		require.Zero(t, fetched.Load(), "a reference out of a document was followed")
	})
	documents := hostileDocuments(listener.URL)
	for i, name := range slices.Sorted(maps.Keys(documents)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.tryHostile(t, own, fmt.Sprintf("hostile-%d", i), documents[name])
		})
	}
	t.Logf("%d documents", len(documents))
}

// tryHostile imports the document and uses what came of it.
func (w *world) tryHostile(t *testing.T, own *tenant, slug string, h hostile) {
	t.Helper()
	body := map[string]any{"slug": slug, "openapi": json.RawMessage(h.document)}
	switch {
	case h.baseURL == "-":
	case h.baseURL != "":
		body["base_url"] = h.baseURL
	case !strings.Contains(h.document, `"servers"`):
		body["base_url"] = "https://api.example.com"
	}
	got := w.call(t, request{method: http.MethodPost, path: "/v1/providers", header: bearer(own.token), body: []byte(raw(t, body))})
	if h.want != "" {
		require.Contains(t, strings.Split(h.want, " or "), outcome(got.Status, code(t, got)), "%s", clip(got.Body))
	}
	if got.Status != http.StatusCreated {
		return
	}
	var report struct {
		Data struct {
			Imported           int
			Degraded, Rejected []struct{ Operation, Reason string }
		}
	}
	require.NoError(t, json.Unmarshal(got.Body, &report))
	if h.imported > 0 {
		require.Equal(t, h.imported, report.Data.Imported, "%s", clip(got.Body))
	}
	require.NotZero(t, report.Data.Imported+len(report.Data.Rejected), "it came to nothing and no reason is given: %s", got.Body)
	// What was taken can be read, listed and called without harm.
	for _, r := range []request{
		{method: http.MethodGet, path: "/v1/providers/" + slug, header: bearer(own.token)},
		{method: http.MethodGet, path: "/v1/runtime/actions/catalog?format=tools&provider=" + slug, header: headers("X-API-Key", own.Runtime.Key)},
		{
			method: http.MethodPost, path: "/v1/runtime/actions/run", header: headers("X-API-Key", own.Runtime.Key),
			body: fmt.Appendf(nil, `{"verb":"%s:a","args":{"p":"%saaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}}`, slug, canary),
		},
	} {
		require.Less(t, w.call(t, r).Status, http.StatusInternalServerError)
	}
}

// placeholder stands for the document while the rest is encoded.
const placeholder = "the-document"

// raw is body as JSON, with the document in it byte for byte.
func raw(t *testing.T, body map[string]any) string {
	t.Helper()
	document, is := body["openapi"].(json.RawMessage)
	require.True(t, is)
	body["openapi"] = placeholder
	return strings.Replace(string(encode(t, body)), `"`+placeholder+`"`, string(document), 1)
}
