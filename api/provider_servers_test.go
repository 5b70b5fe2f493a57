package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

type importedBody struct {
	providerBody
	Servers []struct {
		URL     string
		BaseURL string `json:"base_url"`
		Verbs   int
	}
	Credentials []struct {
		ID      string
		Origins []string
	}
}

func TestImportSaysWhichCredentialsCannotGoToAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	var stored struct{ ID string }
	s.do(t, "user", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"bearer","data":{"token":"t-1"}}`).into(t, http.StatusCreated, &stored)
	document := strings.Replace(shopDocument, `"post": {"operationId": "createOrder",`,
		`"post": {"operationId": "createOrder", "servers": [{"url": "https://{at}.shop.test", "variables": {"at": {"default": "files", "enum": ["files", "media"]}}}],`, 1)
	require.NotEqual(t, shopDocument, document)
	var p importedBody
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi":`+document+`}`).into(t, http.StatusOK, &p)
	require.Len(t, p.Servers, 2)
	require.Equal(t, "https://files.shop.test", p.Servers[1].BaseURL)
	require.Equal(t, 1, p.Servers[1].Verbs)
	require.Len(t, p.Credentials, 1)
	require.Equal(t, stored.ID, p.Credentials[0].ID)
	require.Equal(t, []string{"https://files.shop.test"}, p.Credentials[0].Origins)

	s.do(t, "user", http.MethodPatch, "/v1/providers/shop", `{"server_variables":{"at":"media"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, []string{"https://media.shop.test"}, p.Credentials[0].Origins)
	s.do(t, "user", http.MethodPatch, "/v1/providers/shop", `{"servers":[{"url":"https://{at}.shop.test","base_url":"https://api.shop.test/files"}]}`).into(t, http.StatusOK, &p)
	require.Empty(t, p.Credentials)
	require.Equal(t, "https://api.shop.test/files", p.Servers[1].BaseURL)
	var got importedBody
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").into(t, http.StatusOK, &got)
	require.Equal(t, p.Servers, got.Servers)
	s.do(t, "manager", http.MethodPatch, "/v1/providers/shop", `{"servers":[]}`).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)

	again := strings.Replace(document, "List orders", "All orders", 1)
	p = importedBody{}
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi":`+again+`}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://api.shop.test/files", p.Servers[1].BaseURL, "the choice stays")
	s.do(t, "manager", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi":`+document+`}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://api.shop.test/files", p.Servers[1].BaseURL)
	for _, other := range []string{`"servers":[]`, `"server_variables":{}`} {
		s.do(t, "manager", http.MethodPost, "/v1/providers", `{"slug":"shop",`+other+`,"openapi":`+document+`}`).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	}
	var without struct {
		importedBody
		Unused []string
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi":`+shopDocument+`}`).into(t, http.StatusOK, &without)
	require.Equal(t, []string{"/servers/0", "/server_variables/at"}, without.Unused, "the document no longer has what was said about it")
	s.do(t, "user", http.MethodPatch, "/v1/providers/shop", `{"domain":"sales"}`).into(t, http.StatusOK, &without)
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","servers":[],"server_variables":{},"openapi":`+document+`}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://files.shop.test", p.Servers[1].BaseURL)
}

// What the document no longer allows does not fail an import that does not name it.
func TestImportKeptValueOfAVariableThatIsGoneIsUnused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	document := func(values string) string {
		return strings.Replace(shopDocument, `"post": {"operationId": "createOrder",`, `"post": {"operationId": "createOrder",
			"servers": [{"url": "https://{at}.shop.test", "variables": {"at": {"default": "files", "enum": `+values+`}}}],`, 1)
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","server_variables":{"at":"media"},"openapi":`+document(`["files","media"]`)+`}`)
	var p struct {
		importedBody
		Unused []string
	}
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi":`+document(`["files"]`)+`}`).into(t, http.StatusOK, &p)
	require.Equal(t, "https://files.shop.test", p.Servers[1].BaseURL)
	require.Equal(t, []string{"/server_variables/at"}, p.Unused)
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","server_variables":{"at":"media"},"openapi":`+document(`["files"]`)+`}`).refused(t, http.StatusBadRequest, fault.CodeValidation)
}

func TestMisspeltMembersOfAnImportAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, member := range map[string]string{
		"base_ur":            `"base_ur":"https://a.example"`,
		"auht":               `"auht":{}`,
		"overrides":          `"overrides":[]`,
		"within auth":        `"auth":{"type":"bearer","placement":"X"}`,
		"within servers":     `"servers":[{"url":"https://api.shop.test/v1","base_ur":"https://a.example"}]`,
		"servers no list":    `"servers":{"url":"https://api.shop.test/v1"}`,
		"variables no texts": `"server_variables":{"a":1}`,
		"unknown variable":   `"server_variables":{"a":"b"}`,
		"unknown server":     `"servers":[{"url":"https://api.shop.test","base_url":"https://a.example"}]`,
		"empty server":       `"servers":[{}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, query := range []string{"", "?preview=true"} {
				a := s.do(t, "user", http.MethodPost, "/v1/providers"+query, `{"slug":"shop",`+member+`,"openapi":`+shopDocument+`}`)
				a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			}
		})
	}
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
}
