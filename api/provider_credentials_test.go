package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

const canary = "canary-9d27f4"

type credentialBody struct {
	ID           string
	Type         string
	Label        string
	CustomerID   *string  `json:"customer_id"`
	AllowedHosts []string `json:"allowed_hosts"`
	Status       string
	Version      int
	CreatedBy    string `json:"created_by"`
}

func TestCredentialLifecycle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	connected := func() bool {
		t.Helper()
		var v verbBody
		s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog/shop:list_orders", "").into(t, http.StatusOK, &v)
		return v.Connected
	}
	require.False(t, connected())

	var seen strings.Builder
	do := func(as, method, path, body string) answer {
		t.Helper()
		a := s.do(t, as, method, path, body)
		seen.WriteString(a.body)
		return a
	}
	a := do("user", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"Bearer","label":"main","data":{"token":"`+canary+`"}}`)
	var c credentialBody
	a.into(t, http.StatusCreated, &c)
	require.Equal(t, "/v1/credentials/"+c.ID, a.header.Get("Location"))
	require.Equal(t, "bearer", c.Type)
	require.Equal(t, []string{}, c.AllowedHosts)
	require.Nil(t, c.CustomerID)
	require.True(t, strings.HasPrefix(c.CreatedBy, "user:"))
	require.True(t, connected())
	one := "/v1/credentials/" + c.ID

	var got credentialBody
	do("manager", http.MethodGet, one, "").into(t, http.StatusOK, &got)
	require.Equal(t, c, got)
	valid := do("user", http.MethodPost, one+"/validate", "")
	require.JSONEq(t, `{"id":"`+c.ID+`","valid":true,"status":"active"}`, string(valid.data))
	do("user", http.MethodPost, one+"/rotate", `{"data":{"token":"`+canary+`-2"}}`).into(t, http.StatusOK, &got)
	require.Equal(t, 2, got.Version)
	do("user", http.MethodPatch, one, `{"status":"revoked","allowed_hosts":["*.shop.test"],"label":""}`).into(t, http.StatusOK, &got)
	require.Equal(t, []string{"*.shop.test"}, got.AllowedHosts)
	require.Empty(t, got.Label)
	require.False(t, connected())
	do("user", http.MethodPatch, one, `{}`).into(t, http.StatusOK, &got)
	require.Equal(t, "revoked", got.Status)

	do("manager", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"basic","customer_id":"cus_1","data":{"username":"`+canary+`","password":"p"}}`).into(t, http.StatusCreated, &got)
	require.Equal(t, "cus_1", *got.CustomerID)
	require.True(t, strings.HasPrefix(got.CreatedBy, "key:"))
	var page []credentialBody
	list := do("user", http.MethodGet, "/v1/credentials?limit=1", "")
	list.into(t, http.StatusOK, &page)
	require.Equal(t, got.ID, page[0].ID)
	require.Contains(t, string(list.pagination), `"has_more":true`)
	do("user", http.MethodGet, "/v1/credentials?provider=shop&status=REVOKED", "").into(t, http.StatusOK, &page)
	require.Len(t, page, 1)

	for _, call := range []struct{ method, path, body string }{
		{http.MethodGet, "", ""},
		{http.MethodPatch, "", `{"label":"x"}`},
		{http.MethodDelete, "", ""},
		{http.MethodPost, "/validate", ""},
		{http.MethodPost, "/rotate", `{"data":{"token":"x"}}`},
	} {
		for _, id := range []string{c.ID, "0199a0a0-0000-7000-8000-000000000001", "no-uuid", "%00"} {
			do("foreign", call.method, "/v1/credentials/"+id+call.path, call.body).refused(t, http.StatusNotFound, fault.CodeCredentialNotFound)
		}
		do("runtime", call.method, one+call.path, call.body).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	}

	require.JSONEq(t, `{"deleted":true}`, string(do("user", http.MethodDelete, one, "").data))
	do("user", http.MethodDelete, one, "").refused(t, http.StatusNotFound, fault.CodeCredentialNotFound)
	require.NotContains(t, seen.String(), canary)
	require.NotContains(t, s.log.String(), canary)
}

func TestMalformedCredentialIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tests := map[string]struct {
		body, path string
	}{
		"no provider":       {`{"type":"bearer","data":{"token":"` + canary + `"}}`, "/provider"},
		"no type":           {`{"provider":"shop","data":{"token":"` + canary + `"}}`, "/type"},
		"no data":           {`{"provider":"shop","type":"bearer"}`, "/data"},
		"null data":         {`{"provider":"shop","type":"bearer","data":null}`, "/data"},
		"text data":         {`{"provider":"shop","type":"bearer","data":"` + canary + `"}`, "/data"},
		"oauth2":            {`{"provider":"shop","type":"oauth2","data":{}}`, "/type"},
		"webhook secret":    {`{"provider":"shop","type":"webhook_secret","data":{"secret":"` + canary + `"}}`, "/type"},
		"other field":       {`{"provider":"shop","type":"bearer","data":{"token":"t","` + canary + `":1}}`, "/data"},
		"header injection":  {`{"provider":"shop","type":"bearer","data":{"token":"` + canary + `\r\nX: y"}}`, "/data/token"},
		"host header":       {`{"provider":"shop","type":"custom_header","data":{"headers":{"Host":"` + canary + `"}}}`, "/data/headers/Host"},
		"hosts with scheme": {`{"provider":"shop","type":"bearer","allowed_hosts":["https://x.test"],"data":{"token":"t"}}`, "/allowed_hosts/0"},
		"hosts no list":     {`{"provider":"shop","type":"bearer","allowed_hosts":"x.test","data":{"token":"t"}}`, "/allowed_hosts"},
		"customer":          {`{"provider":"shop","type":"bearer","customer_id":"","data":{"token":"t"}}`, "/customer_id"},
		"time":              {`{"provider":"shop","type":"bearer","expires_at":"9999-12-31T23:59:59-23:59","data":{"token":"t"}}`, "/expires_at"},
		"label":             {`{"provider":"shop","type":"bearer","label":7,"data":{"token":"t"}}`, "/label"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := s.do(t, "user", http.MethodPost, "/v1/credentials", tt.body)
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Contains(t, a.paths, tt.path)
			require.NotContains(t, a.body, canary)
		})
	}
	s.do(t, "user", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"bearer","data":{"token":"a","token":"b"}}`).
		refused(t, http.StatusBadRequest, fault.CodeInvalidJSON)
	s.do(t, "user", http.MethodPost, "/v1/credentials", `{"provider":"`+strings.Repeat("a", 65<<10)+`"}`).
		refused(t, http.StatusRequestEntityTooLarge, fault.CodePayloadTooLarge)
	s.do(t, "user", http.MethodGet, "/v1/credentials?status=gone", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodGet, "/v1/credentials?provider=%00", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
}
