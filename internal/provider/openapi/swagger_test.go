package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

// importSwagger imports a fixture whose calls go to the server.
func importSwagger(t *testing.T, file, server string) *openapi.Imported {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "swagger", file))
	require.NoError(t, err)
	raw = bytes.Replace(raw, []byte("HOST"), []byte(strings.TrimPrefix(server, "http://")), 1)
	in := openapi.ImportInput{Slug: "shop", Document: raw}
	if file == "bare.yaml" {
		in.BaseURL = server
	}
	im, err := openapi.Import(t.Context(), in)
	require.NoError(t, err)
	return im
}

// verbNamed returns a verb of an import.
func verbNamed(t *testing.T, im *openapi.Imported, name string) verb.Definition {
	t.Helper()
	for _, v := range im.Verbs {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no verb %s; rejected: %v", name, im.Rejected)
	return verb.Definition{}
}

// Each call of a document of Swagger 2.0 arrives as the document says.
func TestSwaggerCallsArriveAsTheirDocumentSays(t *testing.T) {
	t.Parallel()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lines := []string{r.Method + " " + r.URL.RequestURI()}
		for _, name := range []string{"Content-Type", "Accept", "X-Trace", "X-Client"} {
			if value := r.Header.Get(name); value != "" {
				if before, boundary, is := strings.Cut(value, "boundary="); is {
					value, body = before+"boundary=B", bytes.ReplaceAll(body, []byte(boundary), []byte("B"))
				}
				lines = append(lines, name+": "+value)
			}
		}
		got = strings.Join(append(lines, strings.ReplaceAll(string(body), "\r\n", "\n")), "\n")
	}))
	defer server.Close()
	const pdf = "Accept: application/json"
	for _, tc := range []struct{ file, verb, args, want string }{
		{
			"pets.yaml", "find_pets", `{"limit":9007199254740993,"status":["new","sold"],"tags":["a","b,c"],"words":["a","b"],"cells":["a","b"],"bars":["a","b"],"X-Trace":["t1","t2"]}`,
			"GET /v2/pets?limit=9007199254740993&status=new&status=sold&tags=a,b%2Cc&words=a%20b&cells=a%09b&bars=a%7Cb\n" + pdf + "\nX-Trace: t1,t2\n",
		},
		{"pets.yaml", "add_pet", `{"kind":"Cat","name":null,"lives":9,"price":1.10}`, "POST /v2/pets\nContent-Type: application/json\n" + pdf + "\n" + `{"kind":"Cat","lives":9,"name":null,"price":1.10}`},
		{"pets.yaml", "get_pet", `{"petId":9007199254740993}`, "GET /v2/pets/9007199254740993\n" + pdf + "\n"},
		{"pets.yaml", "delete_pet", `{"petId":7}`, "DELETE /v2/pets/7\n" + pdf + "\n"},
		{"pets.yaml", "get_pets", `{"ids":[1,2]}`, "GET /v2/pets/1,2/all\n" + pdf + "\n"},
		{
			"mail.yaml", "send_mail", `{"domain":"a.example","to":["x@a.example","y@a.example"],"tags":["p","q"],"tabs":["r","s"],"subject":"hi there"}`,
			"POST /v3/a.example/messages\nContent-Type: application/x-www-form-urlencoded\n" + pdf + "\nsubject=hi%20there&tabs=r%09s&tags=p,q&to=x%40a.example&to=y%40a.example",
		},
		{
			"mail.yaml", "send_file", `{"domain":"a.example","file":"aGk=","note":"n"}`,
			"POST /v3/a.example/messages.mime\nContent-Type: multipart/form-data; boundary=B\nAccept: text/plain\n--B\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\nContent-Type: application/octet-stream\n\nhi\n" +
				"--B\nContent-Disposition: form-data; name=\"note\"\n\nn\n--B--\n",
		},
		{"mail.yaml", "put_raw", `{"body":"aGk="}`, "PUT /v3/raw\nContent-Type: application/octet-stream\n" + pdf + "\nhi"},
		{
			"ledger.yaml", "open_account", `{"account":{"name":"a","children":[{"name":"b"}]},"amount":0.10}`,
			"POST /api/accounts\nContent-Type: application/vnd.ledger+json\nAccept: application/json\n" + `{"account":{"name":"a","children":[{"name":"b"}]},"amount":0.10}`,
		},
		{"ledger.yaml", "copy_account", `{"account":{"name":"a"}}`, "POST /api/accounts/copy\nContent-Type: application/vnd.ledger+json\nAccept: application/json\n" + `{"account":{"name":"a"}}`},
		{"bare.yaml", "search", `{"q":"abc","exact":true,"page":2,"X-Client":"me"}`, "GET /search?q=abc&exact=true&page=2\n" + pdf + "\nX-Client: me\n"},
		{"bare.yaml", "edit_note", `{"id":"a/b","body":"new text"}`, "PATCH /notes/a%2Fb\nContent-Type: text/plain; charset=utf-8\n" + pdf + "\nnew text"},
		{"bare.yaml", "upload", `{"photo":"AAE="}`, "POST /upload\nContent-Type: multipart/form-data; boundary=B\n" + pdf + "\n--B\nContent-Disposition: form-data; name=\"photo\"; filename=\"photo\"\nContent-Type: application/octet-stream\n\n\x00\x01\n--B--\n"},
	} {
		v := verbNamed(t, importSwagger(t, tc.file, server.URL), tc.verb)
		schema, err := argschema.Compile(v.Schema)
		require.NoError(t, err)
		require.Empty(t, schema.Validate(json.RawMessage(tc.args)), tc.verb)
		plan, err := httpplan.Parse(v.Plan)
		require.NoError(t, err)
		req, err := httpcall.BuildRequest(plan, importSwagger(t, tc.file, server.URL).BaseURL, json.RawMessage(tc.args))
		require.NoError(t, err, tc.verb)
		out, err := http.NewRequestWithContext(t.Context(), plan.Method, req.URL, bytes.NewReader(req.Body))
		require.NoError(t, err)
		out.Header = req.Header
		res, err := server.Client().Do(out)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, tc.want, got, tc.verb)
	}
}

func TestSwaggerRefusesArgumentsThatItsSchemaRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ file, verb, args string }{
		{"pets.yaml", "find_pets", `{"status":["lost"]}`},
		{"pets.yaml", "get_pet", `{"petId":9007199254740994}`},
		{"pets.yaml", "add_pet", `{"kind":"Cat","name":"Tom"}`},
		{"pets.yaml", "add_pet", `{"kind":"Zebra","name":"Tom"}`},
		{"pets.yaml", "add_pet", `{"kind":"Dog","name":"Rex","price":1.09}`},
		{"bare.yaml", "search", `{"q":"A"}`},
		{"mail.yaml", "send_mail", `{"domain":"a","subject":"no receiver"}`},
		{"ledger.yaml", "copy_account", `{"amount":1}`},
		{"ledger.yaml", "open_account", `{"account":{"children":[{"nam":"b"}]}}`},
	} {
		v := verbNamed(t, importSwagger(t, tc.file, "http://provider.example"), tc.verb)
		schema, err := argschema.Compile(v.Schema)
		require.NoError(t, err)
		require.NotEmpty(t, schema.Validate(json.RawMessage(tc.args)), "%s %s", tc.verb, tc.args)
	}
}

func TestSwaggerKeepsSecurityExtensionsAndReports(t *testing.T) {
	t.Parallel()
	im := importSwagger(t, "pets.yaml", "http://provider.example")
	require.Equal(t, "http://provider.example/v2", im.BaseURL)
	require.Equal(t, []verb.Report{
		{Operation: "POST /broken", Reason: "it has a body and fields of a form, and a request has one of them"},
		{Operation: "GET /nowhere", Reason: "a parameter cannot be read: a reference points to nothing (#/parameters/none)"},
		{Operation: "GET /pets/{odd}/odd", Reason: "the items of its path parameter odd are separated by no comma, which no style can say"},
	}, im.Rejected)
	require.Contains(t, im.Degraded, verb.Report{Operation: "GET /pets", Reason: "a parameter is dropped: the items of its header parameter X-Odd are separated by no comma, which no style can say"})
	require.Contains(t, im.Degraded, verb.Report{Operation: "POST /pets", Reason: "a media type of the body is not supported; another is used"})
	security := func(im *openapi.Imported, name string) verb.Security {
		plan, err := httpplan.Parse(verbNamed(t, im, name).Plan)
		require.NoError(t, err)
		return plan.Security
	}
	require.Equal(t, verb.Security{{{Name: "api_key", Type: "api_key", In: "header", Wire: "X-Pet-Key"}}}, security(im, "find_pets"))
	require.Equal(t, verb.Security{{{Name: "petstore_auth", Type: "oauth2", Scopes: "write:pets"}}}, security(im, "add_pet"))
	require.Equal(t, verb.Security{{}}, security(im, "get_pet"))
	gone := verbNamed(t, im, "delete_pet")
	require.Equal(t, verb.RiskMedium, gone.Risk)
	require.Equal(t, verb.IdempotencyIntrinsic, gone.Idempotency)

	mail := importSwagger(t, "mail.yaml", "http://provider.example")
	require.Equal(t, verb.Security{{{Name: "basic", Type: "basic"}}}, security(mail, "send_mail"))
	require.Contains(t, string(verbNamed(t, mail, "send_mail").Schema), `"x-sensitive":true`)
	require.Contains(t, mail.Degraded, verb.Report{Operation: "POST /v3/{domain}/messages.mime", Reason: "files of the body are given as base64; its answers in text are results {text, media_type}; the list tags of a multipart body is sent as one part for each item"})
	require.Equal(t, verb.Security{{{Name: "app", Type: "oauth2"}, {Name: "token", Type: "api_key", In: "query", Wire: "access_token"}}}, security(importSwagger(t, "ledger.yaml", "http://provider.example"), "open_account"))
}

func TestSwaggerServersAreHostAndSchemes(t *testing.T) {
	t.Parallel()
	read := func(members, operation string) (*openapi.Imported, error) {
		return openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(`{"swagger":"2.0","paths":{"/a":{"get":{` + operation + `}}}` + members + `}`)})
	}
	for members, want := range map[string]string{
		`,"host":"a.example"`: "https://a.example",
		`,"host":"a.example","basePath":"/","schemes":["ws","http","https"]`: "https://a.example",
		`,"host":"a.example:8443","basePath":"/v1/","schemes":["http"]`:      "http://a.example:8443/v1",
	} {
		im, err := read(members, "")
		require.NoError(t, err)
		require.Equal(t, want, im.BaseURL)
	}
	im, err := read(`,"host":"a.example","schemes":["http"]`, `"schemes":["https"]`)
	require.NoError(t, err)
	require.Equal(t, []string{"http://a.example", "https://a.example"}, im.Servers)
	im, err = read(`,"host":"a.example","schemes":["https"]`, `"schemes":["https"]`)
	require.NoError(t, err)
	require.Equal(t, []string{"https://a.example"}, im.Servers)
	for _, members := range []string{``, `,"basePath":"/v1"`, `,"host":"{region}.example"`} {
		_, err = read(members, "")
		require.Error(t, err)
	}
}

func FuzzSwagger(f *testing.F) {
	files, err := filepath.Glob("testdata/swagger/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte(`{"swagger":"2.0","paths":{"/a":{"$ref":"#/paths/~1a","get":{"parameters":[{"$ref":"#/parameters/a"},{"in":"body","schema":{"$ref":"#/definitions/A"}}]}}},"parameters":{"a":{"$ref":"#/parameters/a"}},"definitions":{"A":{"$ref":"#/definitions/A"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		im, err := openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: raw, BaseURL: "https://api.example"})
		if err == nil {
			for _, v := range im.Verbs {
				_, err := httpplan.Parse(v.Plan)
				require.NoError(t, err)
			}
		}
	})
}

// A list of media types counts for all operations of a document. What is made of it must not grow with the
// product of both. JSON counts wherever it stands.
func TestSwaggerListsOfMediaTypesCostLittle(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	const operations = 300
	imported := func(types int) (made uint64, im *openapi.Imported) {
		media := make([]string, types)
		for i := range media {
			media[i] = fmt.Sprintf("application/x%d", i)
		}
		media[types-1] = "application/json"
		paths := map[string]any{}
		for i := range operations {
			paths[fmt.Sprintf("/p%d", i)] = map[string]any{"post": map[string]any{
				"operationId": fmt.Sprintf("create_%d", i),
				"parameters":  []any{map[string]any{"in": "body", "name": "b", "schema": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}}}},
				"responses":   map[string]any{"200": map[string]any{"description": "d", "schema": map[string]any{"type": "object"}}},
			}}
		}
		doc, err := json.Marshal(map[string]any{
			"swagger": "2.0", "info": map[string]any{"title": "t", "version": "1"}, "host": "example.com", "schemes": []any{"https"},
			"consumes": media, "produces": media, "paths": paths,
		})
		require.NoError(t, err)
		im, err = openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc})
		require.NoError(t, err)
		made = uint64(testing.AllocsPerRun(1, func() {
			_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: doc})
			require.NoError(t, err)
		}))
		return made, im
	}
	one, _ := imported(1)
	many, im := imported(2000)
	require.Len(t, im.Verbs, operations)
	require.Contains(t, string(im.Verbs[0].Schema), `"a"`, "its body is JSON")
	require.Less(t, many, 2*one)
}
