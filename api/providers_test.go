package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

type providerBody struct {
	Slug      string
	Name      string
	BaseURL   string `json:"base_url"`
	Auth      map[string]string
	Connected bool
	Imported  int
	Degraded  []map[string]string
	Rejected  []map[string]string
}

func TestProviderLifecycle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.importShop(t, "shop", `"name":"My shop","domain":"commerce"`)
	var p providerBody
	a.into(t, http.StatusCreated, &p)
	require.Equal(t, "/v1/providers/shop", a.header.Get("Location"))
	require.Equal(t, 3, p.Imported)
	require.Equal(t, "https://api.shop.test/v1", p.BaseURL)
	require.Equal(t, map[string]string{"type": "bearer"}, p.Auth)
	require.NotNil(t, p.Degraded)
	require.NotNil(t, p.Rejected)

	s.importShop(t, "shop", `"auth":{"type":"none"}`).into(t, http.StatusOK, &p)
	require.True(t, p.Connected)
	require.Equal(t, "Shop", p.Name)

	var got providerBody
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").into(t, http.StatusOK, &got)
	require.Equal(t, p, got)
	s.do(t, "manager", http.MethodGet, "/v1/providers/shop", "").into(t, http.StatusOK, &got)

	s.importShop(t, "alpha", "")
	list := s.do(t, "user", http.MethodGet, "/v1/providers?limit=1", "")
	var page []providerBody
	list.into(t, http.StatusOK, &page)
	require.Equal(t, "alpha", page[0].Slug)
	var position struct {
		Limit   int
		HasMore bool    `json:"has_more"`
		Next    *string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal(list.pagination, &position))
	require.True(t, position.HasMore)
	list = s.do(t, "user", http.MethodGet, "/v1/providers?limit=1&cursor="+*position.Next, "")
	list.into(t, http.StatusOK, &page)
	require.Equal(t, "shop", page[0].Slug)
	require.JSONEq(t, `{"limit":1,"has_more":false,"next_cursor":null}`, string(list.pagination))

	foreign := s.do(t, "foreign", http.MethodGet, "/v1/providers/shop", "")
	foreign.refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
	s.do(t, "foreign", http.MethodDelete, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
	gone := s.do(t, "user", http.MethodDelete, "/v1/providers/shop", "")
	require.JSONEq(t, `{"deleted":true}`, string(gone.data))
	s.do(t, "user", http.MethodDelete, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
}

func TestMalformedImportIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tests := map[string]struct {
		body string
		path string
	}{
		"no slug":       {`{"openapi":{}}`, "/slug"},
		"bad slug":      {`{"slug":"a__b","openapi":{}}`, "/slug"},
		"reserved slug": {`{"slug":"tool","openapi":{}}`, "/slug"},
		"no document":   {`{"slug":"shop"}`, "/openapi"},
		"null document": {`{"slug":"shop","openapi":null}`, "/openapi"},
		"broken text":   {`{"slug":"shop","openapi":"openapi: [3.1.0"}`, "/openapi"},
		"number":        {`{"slug":"shop","openapi":3}`, "/openapi"},
		"no auth type":  {`{"slug":"shop","auth":{},"openapi":` + shopDocument + `}`, "/auth/type"},
		"bad auth type": {`{"slug":"shop","auth":{"type":"magic"},"openapi":` + shopDocument + `}`, "/auth/type"},
		"bad auth in":   {`{"slug":"shop","auth":{"type":"api_key","in":"body"},"openapi":` + shopDocument + `}`, "/auth/in"},
		"bad base url":  {`{"slug":"shop","base_url":"ftp://x","openapi":` + shopDocument + `}`, "/base_url"},
		"slug a number": {`{"slug":7,"openapi":{}}`, "/slug"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := s.do(t, "user", http.MethodPost, "/v1/providers", tt.body)
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Contains(t, a.paths, tt.path)
		})
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":`).refused(t, http.StatusBadRequest, fault.CodeInvalidJSON)
	s.do(t, "user", http.MethodGet, "/v1/providers?cursor=%21", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodGet, "/v1/providers/a%00b", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
	for _, as := range []string{"runtime", "agent"} {
		s.do(t, as, http.MethodGet, "/v1/providers", "").refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	}
}
