package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

// document wraps paths and components in a document of the version.
func document(version, paths, components string) json.RawMessage {
	if components == "" {
		components = `{}`
	}
	return json.RawMessage(`{"openapi":"` + version + `","info":{"title":"Shop"},"servers":[{"url":"https://api.shop.example/v1/"}],` +
		`"paths":` + paths + `,"components":` + components + `}`)
}

func load(t *testing.T, doc json.RawMessage) *openapi.Imported {
	t.Helper()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Domain: "commerce", Document: doc})
	require.NoError(t, err)
	for _, v := range im.Verbs {
		_, err := argschema.Compile(v.Schema)
		require.NoError(t, err, v.Name)
		_, err = httpplan.Parse(v.Plan)
		require.NoError(t, err, v.Name)
		_, err = verb.Parse("shop:" + v.Name)
		require.NoError(t, err, v.Name)
	}
	return im
}

// one imports a document of one operation and returns its verb.
func one(t *testing.T, doc json.RawMessage) verb.Definition {
	t.Helper()
	im := load(t, doc)
	require.Empty(t, im.Rejected)
	require.Len(t, im.Verbs, 1)
	return im.Verbs[0]
}

func TestImportTakesProviderFromTheDocument(t *testing.T) {
	t.Parallel()
	im := load(t, document("3.0.3", `{}`, `{"securitySchemes":{"k":{"type":"apiKey","in":"query","name":"key"}}}`))
	require.Equal(t, "Shop", im.Name)
	require.Equal(t, "commerce", im.Domain)
	require.Equal(t, "https://api.shop.example/v1", im.BaseURL)
	require.Equal(t, []string{im.BaseURL}, im.Servers)
	require.Equal(t, credential.Auth{Type: credential.APIKey, In: "query", Name: "key"}, im.Auth)
	require.NotNil(t, im.Verbs)
	require.NotNil(t, im.Degraded)
	require.NotNil(t, im.Rejected)
}

func TestImportChoosesServerAndAuth(t *testing.T) {
	t.Parallel()
	bearer := credential.Auth{Type: credential.Bearer}
	tests := map[string]struct {
		doc  string
		in   openapi.ImportInput
		base string
		auth credential.Auth
	}{
		"variables take their defaults": {
			doc:  `"servers":[{"url":"https://{region}.x.example:{port}/{v}","variables":{"region":{"default":"eu"},"port":{"default":"8443"},"v":{"default":"v2"}}}]`,
			base: "https://eu.x.example:8443/v2", auth: bearer,
		},
		"a given base URL wins":   {doc: `"servers":[{"url":"/relative"}]`, in: openapi.ImportInput{BaseURL: "http://127.0.0.1:99/"}, base: "http://127.0.0.1:99", auth: bearer},
		"no server but a given":   {doc: `"tags":[]`, in: openapi.ImportInput{BaseURL: "https://a.example/b//"}, base: "https://a.example/b", auth: bearer},
		"the first usable scheme": {doc: `"servers":[{"url":"https://a.example"}],"security":[{"tls":[]},{"b":[]}],"components":{"securitySchemes":{"a":{"type":"apiKey","in":"header","name":"X-K"},"b":{"type":"http","scheme":"Basic"},"tls":{"type":"mutualTLS"}}}`, base: "https://a.example", auth: credential.Auth{Type: credential.Basic}},
		"schemes without security": {
			doc:  `"servers":[{"url":"https://a.example"}],"components":{"securitySchemes":{"a":{"type":"apiKey","in":"cookie","name":"sid"}}}`,
			base: "https://a.example", auth: credential.Auth{Type: credential.APIKey, In: "cookie", Name: "sid"},
		},
		"oauth2":                {doc: `"servers":[{"url":"https://a.example"}],"components":{"securitySchemes":{"a":{"type":"oauth2"}}}`, base: "https://a.example", auth: credential.Auth{Type: credential.OAuth2}},
		"given auth wins":       {doc: `"servers":[{"url":"https://a.example"}]`, in: openapi.ImportInput{Auth: &credential.Auth{Type: credential.APIKey}}, base: "https://a.example", auth: credential.Auth{Type: credential.APIKey, In: "header", Name: "X-API-Key"}},
		"a hostile auth name":   {doc: `"servers":[{"url":"https://a.example"}],"components":{"securitySchemes":{"a":{"type":"apiKey","in":"header","name":"Host"}}}`, base: "https://a.example", auth: bearer},
		"security names no one": {doc: `"servers":[{"url":"https://a.example"}],"security":[{"ghost":[]},7,null]`, base: "https://a.example", auth: bearer},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.in.Slug = "shop"
			tc.in.Document = json.RawMessage(`{"openapi":"3.1.0","paths":{},` + tc.doc + `}`)
			im, err := openapi.Import(t.Context(), tc.in)
			require.NoError(t, err)
			require.Equal(t, tc.base, im.BaseURL)
			require.Equal(t, tc.auth, im.Auth)
		})
	}
}

func TestImportRefusesDocuments(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		slug, doc, base string
		path            string
	}{
		"neither JSON nor YAML": {doc: `openapi: [3.0`, path: "/openapi"},
		"a text":                {doc: `openapi`, path: "/openapi"},
		"broken JSON":           {doc: `{"openapi": `, path: "/openapi"},
		"two values":            {doc: `{"openapi":"3.0.0"} {}`, path: "/openapi"},
		"an array":              {doc: `[]`, path: "/openapi"},
		"no version":            {doc: `{"paths":{}}`, path: "/openapi/openapi"},
		"an older swagger":      {doc: `{"swagger":"1.2"}`, path: "/openapi/swagger"},
		"a later version":       {doc: `{"openapi":"4.0.0"}`, path: "/openapi/openapi"},
		"no server":             {doc: `{"openapi":"3.0.0","paths":{}}`, path: "/base_url"},
		"a relative server":     {doc: `{"openapi":"3.0.0","servers":[{"url":"/v1"}],"paths":{}}`, path: "/openapi/servers/0"},
		"a variable unset":      {doc: `{"openapi":"3.0.0","servers":[{"url":"https://{x}/"}],"paths":{}}`, path: "/openapi/servers/0"},
		"a base with userinfo":  {doc: `{"openapi":"3.0.0","paths":{}}`, base: "https://u:p@a.example", path: "/base_url"},
		"a base with a query":   {doc: `{"openapi":"3.0.0","paths":{}}`, base: "https://a.example?x=1", path: "/base_url"},
		"a base that climbs":    {doc: `{"openapi":"3.0.0","paths":{}}`, base: "https://a.example/../b", path: "/base_url"},
		"a file base":           {doc: `{"openapi":"3.0.0","paths":{}}`, base: "file:///etc/passwd", path: "/base_url"},
		"no paths":              {doc: `{"openapi":"3.0.0"}`, base: "https://a.example", path: "/openapi/paths"},
		"paths is a list":       {doc: `{"openapi":"3.1.0","paths":[]}`, base: "https://a.example", path: "/openapi/paths"},
		"a reserved slug":       {slug: "tool", doc: `{}`, path: "/slug"},
		"a slug with __":        {slug: "a__b", doc: `{}`, path: "/slug"},
		"millions of values":    {doc: `{"openapi":"3.0.0","x":[` + strings.Repeat("0,", 5_000_000) + `0]}`, path: "/openapi"},
		"deep nesting":          {doc: `{"openapi":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, path: "/openapi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.slug == "" {
				tc.slug = "shop"
			}
			_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: tc.slug, BaseURL: tc.base, Document: json.RawMessage(tc.doc)})
			f := fault.As(err)
			require.NotNil(t, f, "%v", err)
			require.Equal(t, fault.CodeValidation, f.Code)
			require.Equal(t, tc.path, f.Details[0].Path)
		})
	}
}

func TestMethodAndExtensionSetRisk(t *testing.T) {
	t.Parallel()
	header := `"parameters":[{"name":"idempotency-key","in":"header","schema":{"type":"string"}}]`
	tests := map[string]struct {
		method, op  string
		risk        verb.Risk
		operation   verb.Operation
		idempotency verb.Idempotency
		domain      string
		degraded    string
	}{
		"get":                      {method: "get", op: `{}`, risk: "low", operation: "read", idempotency: "intrinsic"},
		"head":                     {method: "head", op: `{}`, risk: "low", operation: "read", idempotency: "intrinsic"},
		"post":                     {method: "post", op: `{}`, risk: "medium", operation: "write", idempotency: "none"},
		"put":                      {method: "put", op: `{}`, risk: "medium", operation: "write", idempotency: "none"},
		"patch":                    {method: "patch", op: `{}`, risk: "medium", operation: "write", idempotency: "none"},
		"delete":                   {method: "delete", op: `{}`, risk: "high", operation: "write", idempotency: "none"},
		"a declared key":           {method: "post", op: `{` + header + `}`, risk: "medium", operation: "write", idempotency: "header:idempotency-key"},
		"a key that is overridden": {method: "post", op: `{` + header + `,"x-agent-runtime":{"idempotency":"intrinsic"}}`, risk: "medium", operation: "write", idempotency: "intrinsic"},
		"a key on a read":          {method: "get", op: `{` + header + `}`, risk: "low", operation: "read", idempotency: "intrinsic"},
		"tags":                     {method: "get", op: `{"tags":["Customer Orders","x"]}`, risk: "low", operation: "read", idempotency: "intrinsic", domain: "customer_orders"},
		"the extension": {
			method: "post", op: `{"tags":["a"],"x-agent-runtime":{"risk_level":"HIGH","operation_type":"read","domain":"Refunds","idempotency":"header:X-Once"}}`,
			risk: "high", operation: "read", idempotency: "header:X-Once", domain: "refunds",
		},
		"a get that writes": {method: "get", op: `{"x-agent-runtime":{"operation_type":"write"}}`, risk: "medium", operation: "write", idempotency: "none"},
		"bad values": {
			method: "post", op: `{"x-agent-runtime":{"risk_level":"extreme","operation_type":7,"domain":"","idempotency":"header:Bad Name"}}`,
			risk: "medium", operation: "write", idempotency: "none",
			degraded: "x-agent-runtime.domain is not usable and is ignored; x-agent-runtime.idempotency is not usable and is ignored; x-agent-runtime.operation_type is not usable and is ignored; x-agent-runtime.risk_level is not usable and is ignored",
		},
		"a forbidden key header": {method: "post", op: `{"x-agent-runtime":{"idempotency":"header:Authorization"}}`, risk: "medium", operation: "write", idempotency: "none", degraded: "x-agent-runtime.idempotency is not usable and is ignored"},
		"an unknown field":       {method: "post", op: `{"x-agent-runtime":{"risk":"low"}}`, risk: "medium", operation: "write", idempotency: "none", degraded: "x-agent-runtime.risk is not known and is ignored"},
		"no object":              {method: "post", op: `{"x-agent-runtime":"low"}`, risk: "medium", operation: "write", idempotency: "none", degraded: "x-agent-runtime is not an object and is ignored"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, document("3.0.0", `{"/x":{"`+tc.method+`":`+tc.op+`}}`, ""))
			require.Len(t, im.Verbs, 1)
			v := im.Verbs[0]
			if tc.domain == "" {
				tc.domain = "commerce"
			}
			require.Equal(t, []any{tc.risk, tc.operation, tc.idempotency, tc.domain}, []any{v.Risk, v.Operation, v.Idempotency, v.Domain})
			require.Equal(t, name == "a key that is overridden", strings.Contains(string(v.Schema), "idempotency-key"))
			if tc.degraded == "" {
				require.Empty(t, im.Degraded)
			} else {
				require.Equal(t, tc.degraded, im.Degraded[0].Reason)
			}
		})
	}
}

func TestOtherMethodsAreRejected(t *testing.T) {
	t.Parallel()
	im := load(t, document("3.1.0", `{"/x":{"options":{},"trace":{},"get":7,"summary":"s"},"y":{"get":{}},"/z":5,"x-ext":{}}`, ""))
	require.Empty(t, im.Verbs)
	require.Equal(t, []verb.Report{
		{Operation: "GET /x", Reason: "the operation is not an object"},
		{Operation: "OPTIONS /x", Reason: "the method is not supported"},
		{Operation: "TRACE /x", Reason: "the method is not supported"},
		{Operation: "/z", Reason: "its path cannot be read: an object is expected where the document has another value"},
		{Operation: "GET y", Reason: "its path does not begin with a slash"},
	}, im.Rejected)
}

// TestMultiplyingReferencesAreRefused: a small document can ask for a large catalog.
func TestMultiplyingReferencesAreRefused(t *testing.T) {
	t.Parallel()
	var body, paths strings.Builder
	for i := range 8_000 {
		fmt.Fprintf(&body, `,"property_%d":{"type":"string"}`, i)
	}
	for i := range 100 {
		fmt.Fprintf(&paths, `,"/p%d":{"post":{"requestBody":{"$ref":"#/components/requestBodies/B"}}}`, i)
	}
	_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: document("3.0.0", "{"+paths.String()[1:]+"}",
		`{"requestBodies":{"B":{"content":{"application/json":{"schema":{"properties":{`+body.String()[1:]+`}}}}}}}`)})
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
}

func TestImportStopsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := openapi.Import(ctx, openapi.ImportInput{Slug: "shop", Document: document("3.0.0", `{"/x":{"get":{}}}`, "")})
	require.ErrorIs(t, err, context.Canceled)
}

func TestVerbNamesAreUniqueAndStable(t *testing.T) {
	t.Parallel()
	op := func(id string) string { return `{"operationId":"` + id + `"}` }
	im := load(t, document("3.0.0", `{
		"/a":{"get":`+op("issues/list-for-repo")+`,"post":`+op("GetV1Charges")+`},
		"/b":{"get":`+op("HTTPServerStatus")+`,"post":`+op("issues_list_for_repo")+`},
		"/c/{id}":{"get":{},"post":`+op("日本")+`},
		"/d":{"get":`+op("IssuesListForRepo")+`,"put":`+op(strings.Repeat("long name ", 20))+`},
		"/e":{"put":`+op(strings.Repeat("long name ", 20))+`},
		"/":{"get":{}}}`, ""))
	var got []string
	seen := map[string]bool{}
	for _, v := range im.Verbs {
		got = append(got, v.Name)
		require.False(t, seen[v.Name])
		seen[v.Name] = true
		require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, verb.Name{Provider: "shop", Verb: v.Name}.ToolName())
	}
	require.Equal(t, []string{
		"get", "issues_list_for_repo", "get_v1_charges", "http_server_status", "issues_list_for_repo_80f66c", "get_c_id", "post_c_id",
		"issues_list_for_repo_f0d211", "long_name_long_name_long_name_long_name_long_name_242f6ae8",
		"long_name_long_name_long_name_long_name_long_name_5a8763c8",
	}, got)
	again := load(t, document("3.0.0", `{"/0":{"get":{}},"/a":{"get":`+op("issues/list-for-repo")+`},"/b":{"post":`+op("issues_list_for_repo")+`}}`, ""))
	require.Equal(t, got[4], again.Verbs[2].Name, "a new operation must not rename another")
}

func TestStripeDocumentIsImported(t *testing.T) {
	t.Parallel()
	raw, im := stripe(t)
	require.Len(t, im.Verbs, 594)
	require.Empty(t, im.Rejected)
	require.Equal(t, []verb.Report{{Operation: "POST /v1/files", Reason: "files of the body are given as base64"}}, im.Degraded)
	require.Equal(t, credential.Basic, im.Auth.Type)
	again, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "stripe", Document: raw})
	require.NoError(t, err)
	require.Equal(t, im, again, "the same document makes the same verbs")
	byName := map[string]verb.Definition{}
	for _, v := range im.Verbs {
		byName[v.Name] = v
	}
	require.Len(t, byName, 594)

	create := byName["post_payment_intents"]
	require.Equal(t, []any{verb.RiskMedium, verb.Write, verb.IdempotencyNone}, []any{create.Risk, create.Operation, create.Idempotency})
	args := json.RawMessage(`{"amount":9007199254740993,"currency":"usd","metadata":{"order":"A&1"},"payment_method_types":["card","link"]}`)
	schema, err := argschema.Compile(create.Schema)
	require.NoError(t, err)
	require.Empty(t, schema.Validate(args))
	require.Equal(t, "/args/amount", schema.Validate(json.RawMessage(`{"currency":"usd"}`))[0].Path)
	plan, err := httpplan.Parse(create.Plan)
	require.NoError(t, err)
	req, err := httpcall.BuildRequest(plan, im.BaseURL, args)
	require.NoError(t, err)
	require.Equal(t, "https://api.stripe.com/v1/payment_intents", req.URL)
	require.Equal(t, "amount=9007199254740993&currency=usd&metadata%5Border%5D=A%261&payment_method_types%5B0%5D=card&payment_method_types%5B1%5D=link", string(req.Body))
}

var importedStripe struct {
	once sync.Once
	raw  []byte
	im   *openapi.Imported
	err  error
}

// stripe returns Stripe's document and what one import, which all tests share, has made of it. They only
// read it.
func stripe(t *testing.T) ([]byte, *openapi.Imported) {
	t.Helper()
	dir := stripeModule(t)
	s := &importedStripe
	s.once.Do(func() {
		if s.raw, s.err = os.ReadFile(filepath.Join(dir, "embedded", "openapi", "spec3.json")); s.err == nil {
			s.im, s.err = openapi.Import(context.Background(), openapi.ImportInput{Slug: "stripe", Document: s.raw})
		}
	})
	require.NoError(t, s.err)
	return s.raw, s.im
}

// stripeModule is where the Go module of stripe-mock lies.
func stripeModule(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/stripe/stripe-mock")
	cmd.Dir = filepath.Join("..", "..", "..", "tools", "stripemock")
	out, err := cmd.Output()
	require.NoError(t, err)
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		download := exec.CommandContext(t.Context(), "go", "mod", "download", "github.com/stripe/stripe-mock")
		download.Dir = cmd.Dir
		require.NoError(t, download.Run(), "go mod download must reach the module proxy")
		again := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/stripe/stripe-mock")
		again.Dir = cmd.Dir
		out, err = again.Output()
		require.NoError(t, err)
		dir = strings.TrimSpace(string(out))
	}
	require.NotEmpty(t, dir)
	return dir
}

// TestSecretMarksSurviveConversion: masking goes by the converted schema.
func TestSecretMarksSurviveConversion(t *testing.T) {
	t.Parallel()
	secret := `{"type":"string","x-sensitive":true}`
	for name, property := range map[string]string{
		"password": `{"type":"string","format":"password"}`, "write-only": `{"type":"string","writeOnly":true}`, "sensitive": secret,
		"nullable": `{"type":"string","x-sensitive":true,"nullable":true}`, "by reference": `{"$ref":"#/components/schemas/Secret"}`,
		"beside a reference": `{"$ref":"#/components/schemas/Plain","x-sensitive":true}`, "within": `{"type":"object","properties":{"in":` + secret + `}}`,
		"elements": `{"type":"array","items":` + secret + `}`,
	} {
		for _, version := range []string{"3.0.3", "3.1.0"} {
			v := one(t, document(version,
				`{"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"it":`+property+`}}}}}}}}`,
				`{"schemas":{"Secret":`+secret+`,"Plain":{"type":"string"}}}`))
			value := `"hidden"`
			switch name {
			case "within":
				value = `{"in":"hidden"}`
			case "elements":
				value = `["hidden"]`
			}
			masked, _ := redact.MaskArgs(json.RawMessage(`{"it":`+value+`}`), v.Schema)
			require.NotContains(t, string(masked), "hidden", "%s in %s", name, version)
		}
	}
}
