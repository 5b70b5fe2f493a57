package openapi_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

// manyServers has a server for the document, one for a path and one for an operation.
const manyServers = `{"openapi":"3.1.0","info":{"title":"Shop"},
	"servers":[{"url":"https://{region}.shop.example/v1","variables":{"region":{"default":"eu","enum":["eu","us"]}}},{"url":"https://test.shop.example"}],
	"paths":{
	"/main":{"get":{"operationId":"main"}},
	"/again":{"get":{"operationId":"again","servers":[{"url":"https://eu.shop.example/v1"}]}},
	"/files":{"servers":[{"url":"https://files.shop.example/v2"}],
		"get":{"operationId":"listFiles"},
		"post":{"operationId":"addFile","servers":[{"url":"https://{place}.upload.example","variables":{"place":{"default":"up"}}}]}},
	"/near":{"get":{"operationId":"near","servers":[{"url":"/near/v3"}]}},
	"/odd":{"get":{"operationId":"odd","servers":[{"url":"ftp://odd.example"}]}}}}`

// serversCalled returns where each verb is called, "" for the provider's base URL.
func serversCalled(t *testing.T, im *openapi.Imported) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, v := range im.Verbs {
		plan, err := httpplan.Parse(v.Plan)
		require.NoError(t, err)
		out[v.Name] = plan.BaseURL
	}
	return out
}

func TestImportKeepsServersOfPathsAndOperations(t *testing.T) {
	t.Parallel()
	own := map[string]string{
		"main": "", "again": "", "list_files": "https://files.shop.example/v2", "add_file": "https://up.upload.example",
		"near": "https://eu.shop.example/near/v3", "odd": "",
	}
	for name, tt := range map[string]struct {
		in      openapi.ImportInput
		base    string
		changed map[string]string
	}{
		"as the document says": {openapi.ImportInput{}, "https://eu.shop.example/v1", nil},
		"another base URL": {
			openapi.ImportInput{BaseURL: "https://mock.example/shop"},
			"https://mock.example/shop",
			map[string]string{"near": "https://mock.example/near/v3"},
		},
		"a variable of the document's server": {
			openapi.ImportInput{ServerVariables: map[string]string{"region": "us"}},
			"https://us.shop.example/v1",
			map[string]string{"again": "https://eu.shop.example/v1", "near": "https://us.shop.example/near/v3"},
		},
		"a variable of an operation's server": {
			openapi.ImportInput{ServerVariables: map[string]string{"place": "down"}},
			"https://eu.shop.example/v1",
			map[string]string{"add_file": "https://down.upload.example"},
		},
		"servers moved by name": {
			openapi.ImportInput{BaseURL: "https://mock.example", Servers: []verb.ServerChoice{
				{URL: "https://files.shop.example/v2", BaseURL: "https://mock.example/files"}, {URL: "https://{place}.upload.example", BaseURL: "https://mock.example"},
			}},
			"https://mock.example",
			map[string]string{"list_files": "https://mock.example/files", "add_file": "", "near": "https://mock.example/near/v3"},
		},
		"the first server moved by name": {
			openapi.ImportInput{Servers: []verb.ServerChoice{{URL: "https://{region}.shop.example/v1", BaseURL: "https://mock.example/"}}},
			"https://mock.example",
			map[string]string{"again": "https://eu.shop.example/v1", "near": "https://mock.example/near/v3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.in.Slug, tt.in.Document = "shop", json.RawMessage(manyServers)
			im, err := openapi.Import(t.Context(), tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.base, im.BaseURL)
			want := maps.Clone(own)
			maps.Copy(want, tt.changed)
			require.Equal(t, want, serversCalled(t, im))
		})
	}
}

func TestImportReportsAllServersWithTheirVerbs(t *testing.T) {
	t.Parallel()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", BaseURL: "https://mock.example", Document: json.RawMessage(manyServers)})
	require.NoError(t, err)
	require.Equal(t, []verb.Server{
		{URL: "https://{region}.shop.example/v1", BaseURL: "https://mock.example", Verbs: 3},
		{URL: "https://test.shop.example", BaseURL: "https://test.shop.example"},
		{URL: "https://files.shop.example/v2", BaseURL: "https://files.shop.example/v2", Verbs: 1},
		{URL: "https://{place}.upload.example", BaseURL: "https://up.upload.example", Verbs: 1},
		{URL: "/near/v3", BaseURL: "https://mock.example/near/v3", Verbs: 1},
		{URL: "ftp://odd.example", Reason: "it is not an absolute http or https URL"},
	}, im.Listed)
	require.Equal(t, []verb.Report{{Operation: "GET /odd", Reason: "the operation's own server is not usable; the provider's is used"}}, im.Degraded)
	require.Equal(t, []string{"https://mock.example", "https://files.shop.example/v2", "https://mock.example/near/v3", "https://up.upload.example"}, im.Servers)
}

func TestImportRefusesServersThatTheDocumentDoesNotHave(t *testing.T) {
	t.Parallel()
	const files = "https://files.shop.example/v2"
	for name, tt := range map[string]struct {
		in   openapi.ImportInput
		path string
	}{
		"unknown server":     {openapi.ImportInput{Servers: []verb.ServerChoice{{URL: "https://file.shop.example/v2", BaseURL: "https://a.example"}}}, "/servers/0/url"},
		"twice":              {openapi.ImportInput{Servers: []verb.ServerChoice{{URL: files, BaseURL: "https://a.example"}, {URL: files, BaseURL: "https://b.example"}}}, "/servers/1/url"},
		"no URL":             {openapi.ImportInput{Servers: []verb.ServerChoice{{URL: files, BaseURL: "a.example"}}}, "/servers/0/base_url"},
		"unknown variable":   {openapi.ImportInput{ServerVariables: map[string]string{"regio": "eu"}}, "/server_variables/regio"},
		"a value not listed": {openapi.ImportInput{ServerVariables: map[string]string{"region": "mars"}}, "/server_variables/region"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.in.Slug, tt.in.Document = "shop", json.RawMessage(manyServers)
			_, err := openapi.Import(t.Context(), tt.in)
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			require.Equal(t, tt.path, fault.As(err).Details[0].Path)
		})
	}
}

// A value of 10,000 bytes that stands in a URL 600 times would make 6 MB of it, and one of 25 MB gigabytes.
func TestServerWhoseVariablesMakeItTooLongIsRefused(t *testing.T) {
	t.Parallel()
	server := `{"url":"https://a.example/` + strings.Repeat("{v}", 600) + `","variables":{"v":{"default":"` + strings.Repeat("x", 10_000) + `"}}}`
	doc := `{"openapi":"3.1.0","servers":[` + server + `],"paths":{"/p":{"get":{}}}}`
	_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(doc)})
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
	require.Contains(t, err.Error(), "its URL is too long")
	require.Less(t, len(err.Error()), 1000)
}

// A server's URL may have a secret in each of the parts that name no place.
func TestImportReportsServersWithoutUserQueryAndFragment(t *testing.T) {
	t.Parallel()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(`{"openapi":"3.1.0","info":{"title":"Shop"},
		"servers":[{"url":"https://shop.example/v1"},{"url":"https://ann:hush@a.example/v1?key=hush#hush"},{"url":"/b?key=hush"},{"url":"https://c.example?key=hush@x//y"}],
		"paths":{"/x":{"get":{"operationId":"x","servers":[{"url":"https://d.example/v2#hush"}]}}}}`)})
	require.NoError(t, err)
	var urls []string
	for _, server := range im.Listed {
		urls = append(urls, server.URL)
	}
	require.Equal(t, []string{"https://shop.example/v1", "https://a.example/v1", "/b", "https://c.example", "https://d.example/v2"}, urls)
}

// Who writes a server's URL as the report has it means that server.
func TestImportTakesServersByTheURLOfTheReport(t *testing.T) {
	t.Parallel()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{
		Slug: "shop", Document: []byte(`{"openapi":"3.1.0","info":{"title":"Shop"},
		"servers":[{"url":"https://shop.example/v1"},{"url":"https://a.example/v1?key=hush"}],"paths":{"/x":{"get":{"operationId":"x","servers":[{"url":"https://a.example/v1?key=hush"}]}}}}`),
		Servers: []verb.ServerChoice{{URL: "https://a.example/v1", BaseURL: "https://b.example/v1"}},
	})
	require.NoError(t, err)
	var bases []string
	for _, server := range im.Listed {
		bases = append(bases, server.BaseURL)
	}
	require.Contains(t, bases, "https://b.example/v1")
}
