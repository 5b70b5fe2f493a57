package api_test

import (
	"archive/zip"
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// form is a multipart body of parts, each a name and what it has, and its media type.
func form(t *testing.T, parts ...string) (body, media string) {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for i := 0; i+1 < len(parts); i += 2 {
		part, err := w.CreateFormFile(parts[i], parts[i]+".bin")
		require.NoError(t, err)
		_, err = part.Write([]byte(parts[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String(), w.FormDataContentType()
}

// zipShop is the shop in four files.
func zipShop(t *testing.T, root string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, body := range map[string]string{
		root:                  "openapi: 3.1.0\ninfo: {title: Shop}\nservers: [{url: https://api.shop.test/v1}]\npaths:\n  /orders: {$ref: ./paths/orders.yaml}\n",
		"paths/orders.yaml":   "get: {operationId: listOrders, parameters: [{$ref: ../parameters.json#/after}], responses: {200: {description: ok}}}\npost: {operationId: createOrder, requestBody: {content: {application/json: {schema: {$ref: none.yaml}}}}}\n",
		"parameters.json":     `{"after": {"name": "after", "in": "query", "schema": {"$ref": "schemas/cursor.yaml"}}}`,
		"schemas/cursor.yaml": "type: integer\nmaximum: 9007199254740993\n",
	} {
		to, err := w.Create(name)
		require.NoError(t, err)
		_, err = to.Write([]byte(body))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String()
}

func TestImportTakesAnArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := zipShop(t, "openapi.yaml")
	body, media := form(t, "request", `{"slug":"shop","name":"Split"}`, "document", file)
	var p providerBody
	s.do(t, "user", http.MethodPost, "/v1/providers?preview=true", body, "Content-Type", media).into(t, http.StatusOK, &p)
	s.do(t, "manager", http.MethodPost, "/v1/providers", body, "Content-Type", media).into(t, http.StatusCreated, &p)
	require.Equal(t, "Split", p.Name)
	require.Equal(t, 1, p.Imported)
	require.Equal(t, []map[string]string{{"operation": "POST /orders", "reason": "the file paths/none.yaml is not there"}}, p.Rejected)
	w := s.document(t, "user")
	requireBytes(t, file, w)
	require.Equal(t, "application/zip", w.Header().Get("Content-Type"))
	require.Equal(t, `attachment; filename="shop.zip"`, w.Header().Get("Content-Disposition"))
	s.patchShop(t, "user", `{"base_url":"https://eu.shop.test"}`).into(t, http.StatusOK, &p)
	require.Equal(t, 1, p.Imported)
	require.Equal(t, "https://eu.shop.test", p.BaseURL)

	// Another root, which a change keeps.
	body, media = form(t, "document", zipShop(t, "docs.yml"), "request", `{"slug":"shop","root":"docs.yml"}`)
	s.do(t, "user", http.MethodPost, "/v1/providers", body, "Content-Type", media).into(t, http.StatusOK, &p)
	s.patchShop(t, "user", `{"base_url":"https://us.shop.test"}`).into(t, http.StatusOK, &p)
	require.Equal(t, 1, p.Imported)
}

// A document in one file can be a part too: it is kept as it is.
func TestImportTakesAFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, document := range []string{yamlShop, anyDocument} {
		body, media := form(t, "request", `{"slug":"shop"}`, "document", document)
		a := s.do(t, "user", http.MethodPost, "/v1/providers", body, "Content-Type", media)
		require.Less(t, a.status, 300, a.body)
		requireBytes(t, document, s.document(t, "user"))
	}
}

func TestImportRefusesPartsAndSources(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	archive := zipShop(t, "docs.yml")
	for name, tc := range map[string]struct {
		parts []string
		path  string
	}{
		"no document":           {[]string{"request", `{"slug":"shop"}`}, ""},
		"no request":            {[]string{"document", yamlShop}, ""},
		"another part":          {[]string{"request", `{"slug":"shop"}`, "document", yamlShop, "more", "x"}, ""},
		"a part twice":          {[]string{"request", `{"slug":"shop"}`, "request", `{}`, "document", yamlShop}, ""},
		"a large request":       {[]string{"request", `{"slug":"` + strings.Repeat("x", 256<<10) + `"}`, "document", yamlShop}, ""},
		"a document twice":      {[]string{"request", `{"slug":"shop","openapi":{}}`, "document", yamlShop}, "/openapi"},
		"a document and a URL":  {[]string{"request", `{"slug":"shop","openapi_url":"https://a.example"}`, "document", yamlShop}, "/openapi"},
		"an unknown member":     {[]string{"request", `{"slug":"shop","rot":"a"}`, "document", yamlShop}, "/rot"},
		"no root in sight":      {[]string{"request", `{"slug":"shop"}`, "document", archive}, "/root"},
		"a root that is absent": {[]string{"request", `{"slug":"shop","root":"openapi.yaml"}`, "document", archive}, "/root"},
		"an empty document":     {[]string{"request", `{"slug":"shop"}`, "document", ""}, "/openapi"},
		"a broken archive":      {[]string{"request", `{"slug":"shop"}`, "document", archive[:100]}, "/openapi"},
	} {
		body, media := form(t, tc.parts...)
		a := s.do(t, "user", http.MethodPost, "/v1/providers", body, "Content-Type", media)
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", name, a.body)
		require.Contains(t, a.paths, tc.path, "%s: %s", name, a.body)
	}
	body, media := form(t, "request", `{"slug":"shop"}`, "document", yamlShop)
	s.do(t, "user", http.MethodPost, "/v1/providers", body, "Content-Type", "multipart/form-data").refused(t, http.StatusUnsupportedMediaType, fault.CodeUnsupportedMediaType)
	s.do(t, "user", http.MethodPost, "/v1/providers", body[:len(body)-20], "Content-Type", media).refused(t, http.StatusBadRequest, fault.CodeValidation)
	for request, path := range map[string]string{
		`{"slug":"shop","openapi":{},"openapi_url":"https://a.example"}`: "/openapi",
		`{"slug":"shop","openapi":{},"root":"a.yaml"}`:                   "/root",
		`{"slug":"shop","openapi_url":""}`:                               "/openapi_url",
		`{"slug":"shop"}`:                                                "/openapi",
	} {
		a := s.do(t, "user", http.MethodPost, "/v1/providers", request)
		a.refused(t, http.StatusBadRequest, fault.CodeValidation)
		require.Contains(t, a.paths, path)
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi_url":"https://docs.example/x"`+strings.Repeat(" ", 1<<20)+`}`).
		refused(t, http.StatusRequestEntityTooLarge, fault.CodePayloadTooLarge)
	for _, as := range []string{"user", "manager"} {
		for _, address := range []string{"http://docs.example/openapi.json", "https://127.0.0.1/openapi.json", "https://169.254.169.254/latest", "file:///etc/passwd"} {
			s.do(t, as, http.MethodPost, "/v1/providers", `{"slug":"shop","openapi_url":"`+address+`"}`).refused(t, http.StatusUnprocessableEntity, fault.CodeURLNotAllowed)
		}
	}
}
