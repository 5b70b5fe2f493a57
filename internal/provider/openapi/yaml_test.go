package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/openapi"
)

const yamlDocument = `openapi: 3.1.0
info: {title: Shop, version: 1.10}
servers: [{url: https://api.shop.example/v1/}]
x-paging: &paging
  - {name: after, in: query, schema: {type: integer, maximum: 9007199254740993}}
paths:
  /orders:
    get:
      operationId: listOrders
      parameters: *paging
      responses:
        200: {description: ok}
    post:
      operationId: createOrder
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [amount, day, express]
              properties:
                amount: {type: number, multipleOf: 0.10, minimum: 1.10}
                day: {type: string, enum: [2026-01-31, no, 12:30]}
                express: {type: boolean, default: no}
      responses:
        "201": {description: made}
`

const yamlAsJSON = `{"openapi":"3.1.0","info":{"title":"Shop","version":1.10},"servers":[{"url":"https://api.shop.example/v1/"}],
"paths":{"/orders":{
"get":{"operationId":"listOrders","parameters":[{"name":"after","in":"query","schema":{"type":"integer","maximum":9007199254740993}}],"responses":{"200":{"description":"ok"}}},
"post":{"operationId":"createOrder","requestBody":{"content":{"application/json":{"schema":{"type":"object","required":["amount","day","express"],"properties":{
"amount":{"type":"number","multipleOf":0.10,"minimum":1.10},"day":{"type":"string","enum":["2026-01-31","no","12:30"]},"express":{"type":"boolean","default":"no"}}}}}},"responses":{"201":{"description":"made"}}}}}}`

func TestImportReadsYAMLLikeItsJSON(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(string) (*openapi.Imported, error){
		"small": func(doc string) (*openapi.Imported, error) {
			return openapi.ImportSmall(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(doc)})
		},
		"large": func(doc string) (*openapi.Imported, error) {
			return openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(doc)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := read(yamlAsJSON)
			require.NoError(t, err)
			require.Equal(t, openapi.FormJSON, want.Form)
			for _, doc := range []string{yamlDocument, "\xef\xbb\xbf" + yamlDocument, "%YAML 1.2\n---\n" + yamlDocument} {
				got, err := read(doc)
				require.NoError(t, err)
				require.Equal(t, openapi.FormYAML, got.Form)
				got.Form = want.Form
				require.Equal(t, want, got)
			}
			require.Contains(t, string(want.Verbs[1].Schema), "1.10")
			require.Contains(t, string(want.Verbs[0].Schema), "9007199254740993")
		})
	}
}

func TestImportTakesAVersionThatIsANumberInYAML(t *testing.T) {
	t.Parallel()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte("openapi: 3.1\nservers: [{url: https://a.example}]\npaths: {/a: {get: {}}}")})
	require.NoError(t, err)
	require.Len(t, im.Verbs, 1)
}

func TestImportRefusesYAML(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [lol]\n")
	for i := 1; i <= 9; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	for name, tc := range map[string]struct{ doc, path, message string }{
		"billion laughs":         {bomb.String(), "/openapi", "bytes of JSON"},
		"a name twice":           {"openapi: 3.1.0\nopenapi: 3.1.0\n", "/openapi", "twice (line 2)"},
		"an alias cycle":         {"openapi: &a [*a]\n", "/openapi/openapi/0", "around it (line 1)"},
		"a huge number":          {"openapi: 1e999999999\n", "/openapi/openapi", "exponent"},
		"the character 0":        {"openapi: \"\\0\"\n", "/openapi/openapi", "NUL"},
		"more than 5 MiB":        {"openapi: " + strings.Repeat("x", 5<<20), "/openapi", "at most 5242880 bytes of YAML"},
		"very many values":       {"openapi: [" + strings.Repeat("1,", 1<<20) + "]", "/openapi", "too many values"},
		"JSON with a name twice": {`{"openapi":"3.1.0","openapi":"3.1.0"}`, "/openapi/openapi", "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: []byte(tc.doc), Unchecked: true})
			f := fault.As(err)
			require.NotNil(t, f, "%v", err)
			require.Equal(t, fault.CodeValidation, f.Code)
			require.Equal(t, tc.path, f.Details[0].Path)
			require.Contains(t, f.Details[0].Message, tc.message)
		})
	}
}

// YAML that is small and becomes large, or that has very many values, waits for the turn of large documents.
func TestImportSmallLeavesYAMLThatGrowsToImport(t *testing.T) {
	t.Parallel()
	grows := "openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {}\nx: &x [" + strings.Repeat("abcdefgh, ", 1_000) + "]\ny: [" + strings.Repeat("*x, ", 120) + "]\n"
	dense := "openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {}\nx: [" + strings.Repeat("1, ", 100_000) + "]\n"
	for _, doc := range []string{grows, dense} {
		in := openapi.ImportInput{Slug: "shop", Document: []byte(doc)}
		_, err := openapi.ImportSmall(t.Context(), in)
		require.ErrorIs(t, err, openapi.ErrNotSmall)
		_, err = openapi.Import(t.Context(), in)
		require.NoError(t, err)
	}
}
