package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func (s *site) patchShop(t *testing.T, as, body string) answer {
	t.Helper()
	return s.do(t, as, http.MethodPatch, "/v1/providers/shop", body)
}

func TestRenamingAProviderChangesItsNameOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", `"domain":"commerce"`)
	for _, as := range []string{"user", "manager"} {
		var before, after providerBody
		s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").into(t, http.StatusOK, &before)
		verbs := s.count(t, "SELECT sum(xmin::text::bigint) FROM verbs")
		a := s.patchShop(t, as, `{"name":"By `+as+`"}`)
		a.into(t, http.StatusOK, &after)
		before.Name = "By " + as
		require.Equal(t, before, after)
		require.Equal(t, verbs, s.count(t, "SELECT sum(xmin::text::bigint) FROM verbs"), "the document was not read again")
		require.Equal(t, a.header.Get("ETag"), s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").header.Get("ETag"))
	}
	// The name stays when another member is changed.
	var p providerBody
	s.patchShop(t, "user", `{"auth":{"type":"basic"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, "By manager", p.Name)
	require.Equal(t, 2, s.count(t, "SELECT count(*) FROM audit_records WHERE action = 'provider.updated' AND details->>'name' LIKE 'By %'"))
}

func TestPatchActsAsAnImportOfTheKeptDocument(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	document := strings.Replace(shopDocument, `"operationId": "listOrders",`, `"operationId": "listOrders", "parameters": [{"name": "X-Shop", "in": "header", "schema": {"type": "string"}}],`, 1)
	document = strings.Replace(document, `"tags": ["orders"], "requestBody"`, `"requestBody"`, 1)
	require.NotEqual(t, shopDocument, document)
	s.importDocument(t, document, http.StatusCreated)
	s.do(t, "user", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"bearer","data":{"token":"secret"}}`)
	list := func() verbBody {
		var v verbBody
		s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop:list_orders", "").into(t, http.StatusOK, &v)
		return v
	}
	require.Contains(t, string(list().Schema), "X-Shop")

	var p providerBody
	s.patchShop(t, "user", `{"domain":"commerce","base_url":"https://new.shop.test/v2","auth":{"type":"API_KEY","name":"X-Shop"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://new.shop.test/v2", p.BaseURL)
	require.Equal(t, map[string]string{"type": "api_key", "in": "header", "name": "X-Shop"}, p.Auth)
	require.NotContains(t, string(list().Schema), "X-Shop", "no argument is the credential")
	var page struct{ Verbs []verbBody }
	s.do(t, "user", http.MethodGet, "/v1/providers/shop/verbs?domain=commerce", "").into(t, http.StatusOK, &page)
	require.Equal(t, "shop:create_order", page.Verbs[0].Verb, "a verb without a tag")
	requireBytes(t, document, s.document(t, "user"))
	var credentials []struct{ Origin string }
	s.do(t, "user", http.MethodGet, "/v1/credentials", "").into(t, http.StatusOK, &credentials)
	require.Equal(t, "https://api.shop.test", credentials[0].Origin, "a user confirms another origin")

	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM audit_records WHERE action = 'provider.updated' AND (details->'fields')::jsonb = '["domain","base_url","auth"]'
		AND details->>'base_url_before' = 'https://api.shop.test/v1' AND details->>'base_url' = 'https://new.shop.test/v2'`))
	// What was changed stays when something else is.
	s.patchShop(t, "user", `{"auth":{"type":"bearer"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://new.shop.test/v2", p.BaseURL)
	require.Contains(t, string(list().Schema), "X-Shop")
	// An import says all again.
	s.importDocument(t, document, http.StatusOK)
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").into(t, http.StatusOK, &p)
	require.Equal(t, "https://api.shop.test/v1", p.BaseURL)
}

func TestPatchOfAProviderIsRefusedWithoutAChange(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	s.importShop(t, "old", "")
	s.exec(t, "UPDATE providers SET document_size = NULL, import_settings = NULL WHERE slug = 'old'")
	before := s.stored(t)
	for name, tt := range map[string]struct {
		as, slug, body, header string
		status                 int
		code                   fault.Code
	}{
		"base_url by a key":        {"manager", "shop", `{"base_url":"https://x.shop.test"}`, "", http.StatusForbidden, fault.CodeInsufficientPermissions},
		"auth by a key":            {"manager", "shop", `{"auth":{"type":"none"}}`, "", http.StatusForbidden, fault.CodeInsufficientPermissions},
		"domain by a key":          {"manager", "shop", `{"name":"n","domain":"d"}`, "", http.StatusForbidden, fault.CodeInsufficientPermissions},
		"a key without permission": {"runtime", "shop", `{"name":"n"}`, "", http.StatusForbidden, fault.CodeInsufficientPermissions},
		"another tenant":           {"foreign", "shop", `{"base_url":"https://x.shop.test"}`, "", http.StatusNotFound, fault.CodeProviderNotFound},
		"another tenant's name":    {"foreign", "shop", `{"name":"n"}`, "", http.StatusNotFound, fault.CodeProviderNotFound},
		"no slug":                  {"user", "tool", `{"auth":{"type":"none"}}`, "", http.StatusNotFound, fault.CodeProviderNotFound},
		"a server that is private": {"user", "shop", `{"base_url":"http://10.0.0.8"}`, "", http.StatusUnprocessableEntity, fault.CodeURLNotAllowed},
		"no URL":                   {"user", "shop", `{"base_url":"ftp://x"}`, "", http.StatusBadRequest, fault.CodeValidation},
		"no auth type":             {"user", "shop", `{"auth":{"type":"magic"}}`, "", http.StatusBadRequest, fault.CodeValidation},
		"an empty name":            {"user", "shop", `{"name":""}`, "", http.StatusBadRequest, fault.CodeValidation},
		"a slug":                   {"user", "shop", `{"slug":"mine"}`, "", http.StatusBadRequest, fault.CodeValidation},
		"a document":               {"user", "shop", `{"openapi":{}}`, "", http.StatusBadRequest, fault.CodeValidation},
		"another tag":              {"user", "shop", `{"auth":{"type":"none"}}`, `"x"`, http.StatusPreconditionFailed, fault.CodePreconditionFailed},
		"another tag, name":        {"user", "shop", `{"name":"n"}`, `"x"`, http.StatusPreconditionFailed, fault.CodePreconditionFailed},
		"no document kept":         {"user", "old", `{"auth":{"type":"none"}}`, "", http.StatusConflict, fault.CodeConflict},
	} {
		var header []string
		if tt.header != "" {
			header = []string{"If-Match", tt.header}
		}
		a := s.do(t, tt.as, http.MethodPatch, "/v1/providers/"+tt.slug, tt.body, header...)
		require.Equal(t, tt.status, a.status, "%s: %s", name, a.body)
		require.Equal(t, string(tt.code), a.code, name)
	}
	require.Equal(t, before, s.stored(t))
	s.do(t, "user", http.MethodPatch, "/v1/providers/old", `{"name":"Renamed"}`).into(t, http.StatusOK, &providerBody{})
}
