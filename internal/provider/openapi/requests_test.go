package openapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

func TestDeclaredBodyIsSent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content, args    string
		body, media, why string
	}{
		"JSON before a form": {
			content: `{"application/x-www-form-urlencoded":{"schema":{"properties":{"f":{}}}},"application/vnd.x+json":{"schema":{"properties":{"j":{}}}}}`,
			args:    `{"j":1}`, body: `{"j":1}`, media: "application/vnd.x+json",
		},
		"XML is left": {
			content: `{"application/xml":{},"application/json":{"schema":{"properties":{"j":{}}}}}`,
			args:    `{"j":1}`, body: `{"j":1}`, media: "application/json", why: "a media type of the body is not supported; another is used",
		},
		"any type is JSON": {content: `{"*/*":{"schema":{"type":"array"}}}`, args: `{"body":[]}`, body: `[]`, media: "application/json"},
		"text":             {content: `{"text/plain":{"schema":{"type":"string"}}}`, args: `{"body":"hi"}`, body: `hi`, media: "text/plain; charset=utf-8"},
		"bytes": {
			content: `{"image/*":{"schema":{"type":"string","format":"binary"}}}`,
			args:    `{"body":"aGk="}`, body: `hi`, media: "application/octet-stream", why: "the body is given as base64",
		},
		"a form with styles": {
			content: `{"application/x-www-form-urlencoded":{"schema":{"properties":{"d":{"type":"object"},"l":{"type":"array"}}},"encoding":{"d":{"style":"deepObject","explode":true},"l":{"style":"form","explode":false}}}}`,
			args:    `{"d":{"a":1},"l":[1,2]}`, body: "d%5Ba%5D=1&l=1,2", media: "application/x-www-form-urlencoded",
		},
		"multipart": {
			content: `{"multipart/form-data":{"schema":{"type":"object","required":["file"],"properties":{"file":{"type":"string","format":"binary"},"note":{"type":"string"},"meta":{"type":"object"}}},"encoding":{"file":{"contentType":"image/png"}}}}`,
			args:    `{"file":"AAE=","note":"n","meta":{"k":"1,2"}}`, media: "multipart/form-data; boundary=ecf7ae9bc4f0a3d4f8b3ce1c5ce1ac3e", why: "files of the body are given as base64",
			body: "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\nContent-Type: image/png\r\n\r\n\x00\x01\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"k\":\"1,2\"}\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nn\r\n--B--\r\n",
		},
		"a file with a name": {
			content: `{"multipart/form-data":{"schema":{"type":"object","properties":{"file":{"type":"string","format":"binary"}}},"encoding":{"file":{"contentType":"application/pdf"}}}}`,
			args:    `{"file":"AAE=","file_filename":"Rechnung ü.pdf"}`, media: "multipart/form-data; boundary=", why: "files of the body are given as base64",
			body: "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"Rechnung ü.pdf\"\r\nContent-Type: application/pdf\r\n\r\n\x00\x01\r\n--B--\r\n",
		},
		"files with names": {
			content: `{"multipart/form-data":{"schema":{"type":"object","properties":{"f":{"type":"array","items":{"type":"string","format":"binary"}}}}}}`,
			args:    `{"f":["AAE=","AAE="],"f_filename":["a.txt"]}`, media: "multipart/form-data; boundary=", why: "files of the body are given as base64",
			body: "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\x01\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\x01\r\n--B--\r\n",
		},
		"an object without properties":   {content: `{"application/json":{"schema":{"type":"object"}}}`, args: `{}`, body: `{}`, media: "application/json"},
		"an object by a list of types":   {content: `{"application/json":{"schema":{"type":["object"]}}}`, args: `{}`, body: `{}`, media: "application/json"},
		"an object or null":              {content: `{"application/json":{"schema":{"type":["object","null"]}}}`, args: `{}`, body: `{}`, media: "application/json"},
		"an object by its parts":         {content: `{"application/json":{"schema":{"allOf":[{"description":"Anything."},{"type":"object"}]}}}`, args: `{}`, body: `{}`, media: "application/json"},
		"any value":                      {content: `{"application/json":{"schema":{}}}`, args: `{"body":[1]}`, body: `[1]`, media: "application/json"},
		"an object that is open":         {content: `{"application/json":{"schema":{"type":"object","properties":{}}}}`, args: `{"body":{"a":1}}`, body: `{"a":1}`, media: "application/json"},
		"an object that has to be empty": {content: `{"application/json":{"schema":{"type":"object","additionalProperties":false}}}`, args: `{}`, body: `{}`, media: "application/json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.0.0", `{"/p":{"post":{"requestBody":{"required":true,"content":`+tc.content+`}}}}`, ""))
			require.Empty(t, im.Rejected)
			if tc.why == "" {
				require.Empty(t, im.Degraded)
			} else {
				require.Equal(t, tc.why, im.Degraded[0].Reason)
			}
			schema, err := argschema.Compile(im.Verbs[0].Schema)
			require.NoError(t, err)
			require.Empty(t, schema.Validate(json.RawMessage(tc.args)))
			plan, err := httpplan.Parse(im.Verbs[0].Plan)
			require.NoError(t, err)
			req, err := httpcall.BuildRequest(plan, im.BaseURL, json.RawMessage(tc.args))
			require.NoError(t, err)
			media, body := req.Header.Get("Content-Type"), string(req.Body)
			if prefix, boundary, multi := strings.Cut(media, "boundary="); multi {
				require.Len(t, boundary, 32)
				media, body = prefix, strings.ReplaceAll(body, boundary, "B")
				tc.media, _, _ = strings.Cut(tc.media, "boundary=")
			}
			require.Equal(t, tc.media, media)
			require.Equal(t, tc.body, body)
		})
	}
}

// JSON of a vendor is another type than plain JSON to a server.
func TestCallAsksForTheMediaTypesThatAreDeclared(t *testing.T) {
	t.Parallel()
	for accept, content := range map[string]string{
		"application/json":                                               `"application/json":{},"application/vnd.shop+json":{}`,
		"application/json, text/csv;q=0.5":                               `"application/json":{},"text/csv":{}`,
		"application/json, text/plain;q=0.5":                             `"*/*":{},"text/plain":{}`,
		"application/vnd.shop+json, application/json;q=0.5":              `"application/vnd.shop+json":{}`,
		"text/json, application/json;q=0.5, application/pdf;q=0.5":       `"application/pdf":{},"text/json":{}`,
		"application/a+json, application/b+json, application/json;q=0.5": `"application/b+json":{},"application/a+json":{}`,
		"application/pdf, text/csv":                                      `"application/pdf":{},"text/csv":{}`,
	} {
		im := load(t, document("3.0.0", `{"/a":{"get":{"responses":{"200":{"content":{`+content+`}}}}}}`, ""))
		plan, err := httpplan.Parse(im.Verbs[0].Plan)
		require.NoError(t, err)
		require.Equal(t, accept, plan.Accept, content)
	}
}

func TestDeclaredPathServerAndAcceptAreSent(t *testing.T) {
	t.Parallel()
	im := load(t, document("3.0.0", `{"/a b/{id}:run?version=2#frag":{"servers":[{"url":"https://other.example"}],"post":{"responses":{"200":{"content":{"application/pdf":{},"application/json; charset=utf-8":{}}},"404":{"content":{"text/html":{}}}}}}}`, ""))
	require.Equal(t, []string{"https://api.shop.example/v1", "https://other.example"}, im.Servers)
	plan, err := httpplan.Parse(im.Verbs[0].Plan)
	require.NoError(t, err)
	req, err := httpcall.BuildRequest(plan, im.BaseURL, json.RawMessage(`{"id":"7"}`))
	require.NoError(t, err)
	require.Equal(t, "https://other.example/a%20b/7:run?version=2", req.URL)
	require.Equal(t, http.Header{"Accept": {"application/json, application/pdf;q=0.5"}}, req.Header)

	given, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", BaseURL: "https://mine.example", Document: document("3.0.0",
		`{"/a":{"servers":[{"url":"https://other.example"}],"get":{}}}`, "")})
	require.NoError(t, err)
	require.Equal(t, []string{"https://mine.example", "https://other.example"}, given.Servers, "a given base URL leaves the path's own server")
}

func TestFileNamesThatArePathsAreRefused(t *testing.T) {
	t.Parallel()
	plan := httpplan.Plan{Method: "POST", Path: "/a", Body: &httpplan.Body{
		Type: "multipart/form-data", Kind: httpplan.BodyMultipart, Fields: map[string]httpplan.Encoding{"f": {File: true, NameArg: "f_filename"}},
	}}
	for _, name := range []string{"../etc/passwd", `a\\b`, "a/b.pdf", `x\"; filename=\"y`, "a\\r\\nX: y", " a", "a.", "a%0A"} {
		_, err := httpcall.BuildRequest(plan, "https://a.test", json.RawMessage(`{"f":"AAE=","f_filename":"`+name+`"}`))
		f := fault.As(err)
		require.NotNil(t, f, name)
		require.Equal(t, "/args/f_filename", f.Details[0].Path)
	}
}

func TestFileNamesWithoutFilesAreRefused(t *testing.T) {
	t.Parallel()
	plan := httpplan.Plan{Method: "POST", Path: "/a", Body: &httpplan.Body{
		Type: "multipart/form-data", Kind: httpplan.BodyMultipart, Fields: map[string]httpplan.Encoding{"f": {File: true, NameArg: "f_filename"}},
	}}
	for args, fits := range map[string]bool{
		`{"f":"AAE=","f_filename":"a.txt"}`: true, `{"f":["AAE=","AAE="],"f_filename":["a.txt"]}`: true, `{"f":["AAE="],"f_filename":[]}`: true,
		`{"f_filename":null}`: true, `{"f":["AAE="],"f_filename":["a.txt","b.txt"]}`: false, `{"f_filename":"a.txt"}`: false, `{"f":null,"f_filename":["a.txt"]}`: false,
	} {
		_, err := httpcall.BuildRequest(plan, "https://a.test", json.RawMessage(args))
		if fits {
			require.NoError(t, err, args)
			continue
		}
		require.True(t, fault.HasCode(err, fault.CodeInvalidArgs), "%s: %v", args, err)
		require.Equal(t, "/args/f_filename", fault.As(err).Details[0].Path)
	}
}
