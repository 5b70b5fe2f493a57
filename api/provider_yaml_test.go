package api_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

const yamlShop = `# The shop, as its authors wrote it.
openapi: 3.1.0
info: {title: Shop, version: 1.10}
servers: [{url: https://api.shop.test/v1}]
paths:
  /orders:
    get:
      operationId: listOrders
      parameters:
        - {name: after, in: query, schema: {type: integer, maximum: 9007199254740993}}
      responses:
        200: {description: no}
`

// asText returns a request whose document is the text in a string.
func asText(t *testing.T, document string) string {
	t.Helper()
	text, err := json.Marshal(document)
	require.NoError(t, err)
	return `{"slug":"shop","openapi":` + string(text) + `}`
}

// inYAML is a request in YAML with the document as its member openapi.
func inYAML(document string) string {
	return "slug: shop\nname: My shop\nrules:\n  - {match: {verb: list_orders}, risk_level: medium}\nopenapi:\n  " + strings.ReplaceAll(document, "\n", "\n  ") + "\n"
}

// A document in YAML makes the verbs of the same document in JSON, and its text is what is kept.
func TestImportTakesADocumentInYAML(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, document := range []string{yamlShop, anyDocument} {
		var p providerBody
		a := s.do(t, "user", http.MethodPost, "/v1/providers", asText(t, document))
		require.Less(t, a.status, 300, a.body)
		require.NoError(t, json.Unmarshal(a.data, &p))
		require.Equal(t, 1, p.Imported)
		w := s.document(t, "user")
		requireBytes(t, document, w)
		media, file := "application/json", "shop.json"
		if document == yamlShop {
			media, file = "application/yaml", "shop.yaml"
		}
		require.Equal(t, media, w.Header().Get("Content-Type"))
		require.Equal(t, `attachment; filename="`+file+`"`, w.Header().Get("Content-Disposition"))
		require.Equal(t, strconv.Itoa(len(document)), w.Header().Get("Content-Length"))
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", asText(t, yamlShop)).into(t, http.StatusOK, &providerBody{})
	// The kept text is read again.
	var p providerBody
	s.patchShop(t, "user", `{"base_url":"https://eu.shop.test"}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://eu.shop.test", p.BaseURL)
	requireBytes(t, yamlShop, s.document(t, "user"))
}

func TestImportTakesARequestInYAML(t *testing.T) {
	t.Parallel()
	for _, media := range []string{"application/yaml", "application/x-yaml", "text/yaml; charset=utf-8"} {
		s := newSite(t)
		var p providerBody
		s.do(t, "user", http.MethodPost, "/v1/providers?preview=true", inYAML(yamlShop), "Content-Type", media).into(t, http.StatusOK, &p)
		require.Equal(t, 1, p.Imported)
		a := s.do(t, "user", http.MethodPost, "/v1/providers", inYAML(yamlShop), "Content-Type", media)
		a.into(t, http.StatusCreated, &p)
		require.Equal(t, "My shop", p.Name)
		w := s.document(t, "user")
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		requireBytes(t, `{"openapi":"3.1.0","info":{"title":"Shop","version":1.10},"servers":[{"url":"https://api.shop.test/v1"}],"paths":{"/orders":{"get":{"operationId":"listOrders",`+
			`"parameters":[{"name":"after","in":"query","schema":{"type":"integer","maximum":9007199254740993}}],"responses":{"200":{"description":"no"}}}}}}`, w)
		require.Equal(t, "medium", s.risk(t, "list_orders"))
	}
}

func TestImportRefusesBrokenYAML(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"
	for name, tc := range map[string]struct{ body, path string }{
		"no YAML":                {"slug: [", ""},
		"billion laughs":         {bomb, ""},
		"a name twice":           {"slug: shop\nslug: shop\n", ""},
		"a member that is none":  {"slug: shop\nopenapi: {}\nbase_ur: x\n", "/base_ur"},
		"a slug that is a date":  {"slug: 2026\nopenapi: {}\n", "/slug"},
		"a document with a tag":  {"slug: shop\nopenapi: !!binary aGk=\n", "/openapi"},
		"a document of a number": {"slug: shop\nopenapi: 3\n", "/openapi"},
		"NUL":                    {"slug: shop\nopenapi: {x: \"\\0\"}\n", "/openapi/x"},
	} {
		a := s.do(t, "user", http.MethodPost, "/v1/providers", tc.body, "Content-Type", "application/yaml")
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", name, a.body)
		require.Contains(t, a.paths, tc.path, "%s: %s", name, a.body)
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", "slug: shop\nopenapi: "+strings.Repeat("x", 5<<20), "Content-Type", "application/yaml").
		refused(t, http.StatusRequestEntityTooLarge, fault.CodePayloadTooLarge)
	s.do(t, "user", http.MethodPost, "/v1/providers", "slug: shop", "Content-Type", "application/toml").
		refused(t, http.StatusUnsupportedMediaType, fault.CodeUnsupportedMediaType)
	s.do(t, "user", http.MethodPost, "/v1/providers", asText(t, bomb)).refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "manager", http.MethodPost, "/v1/providers", asText(t, yamlShop)).into(t, http.StatusCreated, &providerBody{})
}
