package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// answering is a provider that answers each call as its argument `as` names, with as many bytes as it says.
type answering map[string]func(net.Conn)

func (a answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	a[r.URL.Query().Get("as")](conn)
}

// whole answers with a body and the headers; cut with a body of which a part is missing.
func whole(body string, headers ...string) func(net.Conn) { return sent(body, len(body), headers) }

func cut(body string, headers ...string) func(net.Conn) { return sent(body, len(body)+500, headers) }

func sent(body string, length int, headers []string) func(net.Conn) {
	return func(c net.Conn) {
		head := append([]string{"HTTP/1.1 200 OK", "Connection: close", "Content-Length: " + strconv.Itoa(length)}, headers...)
		_, _ = io.WriteString(c, strings.Join(head, "\r\n")+"\r\n\r\n"+body)
	}
}

// answeringDocument has a read and a write for each way in which a document declares an answer.
func answeringDocument() json.RawMessage {
	paths := map[string]any{}
	for name, responses := range map[string]any{
		"bare":    map[string]any{"200": map[string]any{"description": "ok"}},
		"default": map[string]any{"default": map[string]any{"description": "any"}},
		"json":    map[string]any{"200": map[string]any{"description": "ok", "content": map[string]any{"application/json": map[string]any{}}}},
		"text":    map[string]any{"200": map[string]any{"description": "ok", "content": map[string]any{"text/plain": map[string]any{}}}},
		"pdf": map[string]any{"200": map[string]any{
			"description": "ok", "content": map[string]any{"application/pdf": map[string]any{}},
			"headers": map[string]any{"X-Pages": map[string]any{}, "Set-Cookie": map[string]any{}, "X-Session-Token": map[string]any{}},
		}},
	} {
		op := func(id string) map[string]any {
			return map[string]any{
				"operationId": id, "responses": responses, "x-agent-runtime": map[string]any{"risk_level": "low"},
				"parameters": []any{map[string]any{"name": "as", "in": "query", "required": true, "schema": map[string]any{"type": "string"}}},
			}
		}
		paths["/"+name] = map[string]any{"get": op("get_" + name), "post": op("make_" + name)}
	}
	raw, err := json.Marshal(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "Answers", "version": "1"}, "paths": paths,
		"components": map[string]any{"securitySchemes": map[string]any{"b": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security":   []any{map[string]any{"b": []any{}}},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// noted is what these tests read of the answer to a run and of an execution.
type noted struct {
	Status        string
	Result        json.RawMessage
	ResultError   *struct{ Code, Message string } `json:"result_error"`
	ResultHeaders map[string]string               `json:"result_headers"`
}

type fileOfResult struct {
	File struct {
		ID, Name, SHA256 string
		MediaType        string `json:"media_type"`
		Size             int
	}
}

// The form of an answer never decides about the outcome of a write: its status has said it.
func TestAnswerOfAnyFormIsAResult(t *testing.T) {
	t.Parallel()
	s := rig.Dev(t, "QUOTAS=result_file_bytes=2500000")
	tenant := newTenant(s)
	small, large := "%PDF-1.7\x00\xff\xfe small", "\x89PNG\xff"+strings.Repeat("\x00\x01\x02\xff", 200_000)
	const withToken = "\xff\xfe\x00 secret-token-1 \xff"
	cases := map[string]struct {
		answer func(net.Conn)
		result string // "" for a file, "null" where there is none
		code   string // of result_error
		file   string
		reads  bool // a read is executed too
	}{
		"object":    {whole(`{"a":1.10}`, "Content-Type: application/json"), `{"a":1.10}`, "", "", true},
		"list":      {whole(`[1]`, "Content-Type: application/json"), `{"data":[1]}`, "", "", true},
		"empty":     {whole(``, "Content-Type: application/pdf"), `{"data":null}`, "", "", true},
		"text":      {whole(`ok`, "Content-Type: text/plain"), `{"text":"ok","media_type":"text/plain"}`, "", "", true},
		"page":      {whole(`<p>`, "Content-Type: text/html"), `{"text":"<p>","media_type":"text/html"}`, "", "", true},
		"untyped":   {whole(`OK`), `{"text":"OK","media_type":""}`, "", "", true},
		"pdf":       {whole(small, "Content-Type: application/pdf", `Content-Disposition: attachment; filename="../../invoice\"7.pdf"`), "", "", small, true},
		"bytes":     {whole(small), "", "", small, true},
		"broken":    {whole(`{"a":`, "Content-Type: application/json"), "null", "RESULT_MALFORMED", "", false},
		"cut":       {cut(`{"a":1`, "Content-Type: application/json"), "null", "RESULT_CUT_OFF", "", false},
		"cut text":  {cut(`ok`, "Content-Type: text/plain"), "null", "RESULT_CUT_OFF", "", false},
		"cut file":  {cut(small, "Content-Type: application/pdf"), "null", "RESULT_CUT_OFF", "", false},
		"cut large": {cut(large, "Content-Type: image/png"), "null", "RESULT_CUT_OFF", "", false},
		"5 MiB":     {whole(strings.Repeat("x", 5<<20), "Content-Type: text/plain"), "null", "RESULT_TOO_LARGE", "", false},
		"26 MiB":    {whole(strings.Repeat("\xff", 26<<20), "Content-Type: application/zip"), "null", "RESULT_TOO_LARGE", "", false},
		"secret":    {whole(withToken, "Content-Type: application/zip"), "null", "RESULT_WITHHELD", "", true},
	}
	provider := answering{}
	for name, c := range cases {
		provider[name] = c.answer
	}
	provider["full"] = whole(large, "Content-Type: image/png")
	base, other := rig.Serve(t, provider), newTenant(s)
	connect := func(slug string) string {
		tenant.Connect(t, slug, base, answeringDocument(), "bearer", map[string]string{"token": "secret-token-1"})
		return slug
	}
	for name, c := range cases {
		for _, declared := range []string{"bare", "default", "json", "text", "pdf"} {
			if len(name) > 5 && declared != "bare" || strings.HasSuffix(name, "MiB") && declared != "bare" {
				continue // the declaration changes nothing: a few suffice
			}
			id := "write-" + strings.ToLower(strings.ReplaceAll(name, " ", "-")) + "-" + declared
			slug := connect("of-" + id) // its own provider, so that failures of others do not open its circuit
			run := func(verb, id string) rig.Answer {
				return tenant.Runtime.Run(slug+":"+verb+"_"+declared, map[string]string{"as": name}, id)
			}
			var first, again, shown noted
			a := run("make", id)
			require.Equal(t, http.StatusOK, a.Status, "%s %s: %s", name, declared, a.Body)
			a.Data(t, &first)
			run("make", id).Data(t, &again)
			require.Equal(t, first.Result, again.Result, "a repeat has the same result")
			tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+id, nil).Data(t, &shown)
			require.Equal(t, "executed", shown.Status)
			if c.code != "" {
				require.Equal(t, c.code, first.ResultError.Code, name)
				require.Equal(t, first.ResultError, shown.ResultError)
			} else {
				require.Nil(t, first.ResultError, "%s %s", name, declared)
			}
			if c.file == "" {
				require.JSONEq(t, c.result, string(first.Result), name)
			} else {
				requireFile(t, tenant, other, id, first.Result, c.file)
			}
			read := run("get", "")
			if c.reads {
				require.Equal(t, http.StatusOK, read.Status, "%s %s: %s", name, declared, read.Body)
			} else {
				require.Equal(t, http.StatusBadGateway, read.Status, "%s %s: %s", name, declared, read.Body)
			}
		}
	}
	// The tenant's files have no room for more: the call is executed, and says so.
	slug := connect("of-full")
	var full noted
	for i := range 3 {
		tenant.Runtime.Run(slug+":make_pdf", map[string]string{"as": "full"}, "full-"+strconv.Itoa(i)).Data(t, &full)
		require.Equal(t, "executed", full.Status)
	}
	require.JSONEq(t, "null", string(full.Result))
	require.Equal(t, "QUOTA_EXCEEDED", full.ResultError.Code)
}

// requireFile reads the file of a result as its caller, as a user and as strangers.
func requireFile(t *testing.T, tenant, other *rig.Tenant, id string, result json.RawMessage, want string) {
	t.Helper()
	var f fileOfResult
	require.NoError(t, json.Unmarshal(result, &f), string(result))
	sum := sha256.Sum256([]byte(want))
	require.Equal(t, hex.EncodeToString(sum[:]), f.File.SHA256)
	require.Equal(t, len(want), f.File.Size)
	require.NotContains(t, f.File.Name, "/")
	path := "/v1/executions/" + id + "/files/" + f.File.ID
	for _, who := range []*rig.Client{tenant.Runtime, tenant.User} {
		a := who.Do(http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, a.Status, string(a.Body))
		require.True(t, bytes.Equal([]byte(want), a.Body))
		require.Equal(t, f.File.MediaType, a.Header.Get("Content-Type"))
		require.True(t, strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment"), a.Header.Get("Content-Disposition"))
		require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"))
		require.Contains(t, a.Header.Get("Content-Security-Policy"), "sandbox")
	}
	require.Equal(t, "EXECUTION_NOT_FOUND", other.Runtime.Do(http.MethodGet, path, nil).Code(t))
	require.Equal(t, "FILE_NOT_FOUND", tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+id+"/files/0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90", nil).Code(t))
}

// Headers that page, name or limit stay with the result; cookies and tokens do not.
func TestHeadersOfAnAnswerStayWithItsResult(t *testing.T) {
	t.Parallel()
	tenant := newTenant(rig.Dev(t))
	provider := answering{"paged": whole(`[1]`, "Content-Type: application/json", "Link: <https://shop.example/orders?page=2&token=abc>; rel=\"next\"",
		"X-Total-Count: 41", "ETag: \"v7\"", "Location: /orders/7", "X-Pages: 3", "X-Other: no", "Set-Cookie: sid=1", "X-Session-Token: t-1")}
	tenant.Connect(t, "answers", rig.Serve(t, provider), answeringDocument(), "bearer", map[string]string{"token": "secret-token-1"})
	want := map[string]string{"Link": `<https://shop.example/orders?page=2&token=abc>; rel="next"`, "X-Total-Count": "41", "ETag": `"v7"`, "Location": "/orders/7", "X-Pages": "3"}
	var got, shown noted
	for range 2 { // the second is a repeat
		tenant.Runtime.Run("answers:make_pdf", map[string]string{"as": "paged"}, "paged-1").Data(t, &got)
		require.Equal(t, want, got.ResultHeaders)
	}
	tenant.User.Do(http.MethodGet, "/v1/executions/paged-1", nil).Data(t, &shown)
	require.Equal(t, "41", shown.ResultHeaders["X-Total-Count"])
	require.NotContains(t, shown.ResultHeaders["Link"], "abc", "others than the caller read them masked")
}

// Providers that answer errors with 200 can say so in their document.
func TestDeclaredErrorIsNoSuccess(t *testing.T) {
	t.Parallel()
	tenant := newTenant(rig.Dev(t))
	var document map[string]any
	require.NoError(t, json.Unmarshal(answeringDocument(), &document))
	for _, op := range document["paths"].(map[string]any)["/json"].(map[string]any) { //nolint:forcetypeassert // made above
		op.(map[string]any)["x-agent-runtime"] = map[string]any{"risk_level": "low", "error_when": `.ok == false or (.errors | length) > 0`} //nolint:forcetypeassert // as above
	}
	raw, err := json.Marshal(document)
	require.NoError(t, err)
	const json = "Content-Type: application/json"
	provider := answering{
		"fine": whole(`{"ok":true,"errors":[]}`, json), "refused": whole(`{"ok":false,"why":"no stock"}`, json), "errors": whole(`{"errors":["no stock"]}`, json),
		"odd": whole(`{"errors":true}`, json), // the program fails
	}
	tenant.Connect(t, "answers", rig.Serve(t, provider), raw, "bearer", map[string]string{"token": "secret-token-1"})
	run := func(verb, as string) rig.Answer {
		return tenant.Runtime.Run("answers:"+verb+"_json", map[string]string{"as": as}, verb+"-"+as)
	}
	for _, verb := range []string{"get", "make"} {
		a := run(verb, "fine")
		require.Equal(t, http.StatusOK, a.Status, string(a.Body))
	}
	for _, as := range []string{"refused", "errors", "odd"} {
		requireCode(t, run("get", as), http.StatusBadGateway, "PROVIDER_ERROR")
		requireCode(t, run("make", as), http.StatusGatewayTimeout, "OUTCOME_UNKNOWN")
		var shown noted
		tenant.User.Do(http.MethodGet, "/v1/executions/make-"+as, nil).Data(t, &shown)
		require.Equal(t, "outcome_unknown", shown.Status)
		require.NotEqual(t, "null", string(shown.Result), "people see what came back")
	}
	a := tenant.User.Do(http.MethodPost, "/v1/executions/make-refused/resolve", map[string]any{"outcome": "failed", "reason": "no stock"})
	require.Equal(t, http.StatusOK, a.Status, string(a.Body))
}

// paging are the answers of the scripted model that looks at the headers of a result.
var paging = []string{
	`{"purpose":"reply","turn":0,"contains":["How many quinces"],` + toolCalls(toolCall("1", "answers:get_json", `{"as":"paged"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["How many quinces","X-Total-Count","page=2","the last one"],"text":"There are more."}`,
	`{"purpose":"plan","contains":["Count the quinces","X-Total-Count","page=2","the last one"],"json":{"status":"blocked","remaining_plan":[],"next":null,"criteria":[],"reason":"There are more."}}`,
	`{"purpose":"plan","contains":["Count the quinces"],"json":{"status":"act","remaining_plan":[],"next":{"verb":"answers:get_json","args":{"as":"paged"},"why":"","expect":""},"criteria":[],"reason":""}}`,
}

// A model reads the headers beside the result: without them it knows of no second page. Letters that a
// provider escapes do not use up what it reads of a result.
func TestAgentReadsTheHeadersOfAResult(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant := newTenant(s)
	provider := answering{"paged": whole(`["`+strings.Repeat(`\u00fc`, 4_000)+` the last one"]`, "Content-Type: application/json", "Link: </quinces?page=2>; rel=\"next\"", "X-Total-Count: 41")}
	tenant.Connect(t, "answers", rig.Serve(t, provider), answeringDocument(), "bearer", map[string]string{"token": "secret-token-1"})
	tools := map[string]any{"allow": []string{"answers:*"}}
	message, key := agentOf(t, tenant, map[string]any{"tools": tools})
	require.Equal(t, "There are more.", *saidOf(t, key.Do(http.MethodPost, message, write("How many quinces are there?", "")), http.StatusOK).Message)

	_, goals, key := goalAgent(t, tenant, map[string]any{"tools": tools})
	p := pursuedOf(t, key.Do(http.MethodPost, goals, goalOf("Count the quinces", criterion("counted", "")), "Idempotency-Key: k"), http.StatusOK)
	require.Equal(t, "There are more.", *p.Reason)
}
