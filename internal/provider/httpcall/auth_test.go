package httpcall_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpcall"
)

func TestApplyPutsTheSecretInPlace(t *testing.T) {
	t.Parallel()
	key := credential.NewAPIKey("k&1")
	token := credential.NewBearer("tok")
	basic := credential.NewBasic("u", "p:w")
	custom := credential.NewCustomHeader(map[string]string{"X-One": "1", "x-two": "2"})
	inHeader := credential.Auth{Type: credential.APIKey, In: "header", Name: "X-API-Key"}
	inQuery := credential.Auth{Type: credential.APIKey, In: "query", Name: "api key"}
	inCookie := credential.Auth{Type: credential.APIKey, In: "cookie", Name: "sid"}
	const plain = "https://a.example/x?q=1&api%20key=mine"
	tests := map[string]struct {
		auth   credential.Auth
		secret credential.Secret
		url    string
		header http.Header
	}{
		"key in a header":         {inHeader, key, plain, http.Header{"X-Api-Key": {"k&1"}}},
		"key in the query":        {inQuery, key, "https://a.example/x?q=1&api%20key=k%261", http.Header{}},
		"key in a cookie":         {inCookie, key, plain, http.Header{"Cookie": {"sid=k%261"}}},
		"key as bearer":           {credential.Auth{Type: credential.Bearer}, key, plain, http.Header{"Authorization": {"Bearer k&1"}}},
		"key as basic user":       {credential.Auth{Type: credential.Basic}, key, plain, http.Header{"Authorization": {"Basic ayYxOg=="}}},
		"bearer":                  {credential.Auth{Type: credential.Bearer}, token, plain, http.Header{"Authorization": {"Bearer tok"}}},
		"bearer where basic is":   {credential.Auth{Type: credential.Basic}, token, plain, http.Header{"Authorization": {"Bearer tok"}}},
		"bearer where a key is":   {inHeader, token, plain, http.Header{"X-Api-Key": {"tok"}}},
		"bearer for oauth2":       {credential.Auth{Type: credential.OAuth2}, token, plain, http.Header{"Authorization": {"Bearer tok"}}},
		"basic":                   {credential.Auth{Type: credential.Basic}, basic, plain, http.Header{"Authorization": {"Basic dTpwOnc="}}},
		"basic where bearer is":   {credential.Auth{Type: credential.Bearer}, basic, plain, http.Header{"Authorization": {"Basic dTpwOnc="}}},
		"headers":                 {credential.Auth{Type: credential.CustomHeader}, custom, plain, http.Header{"X-One": {"1"}, "X-Two": {"2"}}},
		"none leaves it alone":    {credential.Auth{Type: credential.None}, token, plain, http.Header{}},
		"headers where bearer is": {credential.Auth{Type: credential.Bearer}, custom, plain, http.Header{"X-One": {"1"}, "X-Two": {"2"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &httpcall.Request{Method: "GET", URL: plain, Header: http.Header{}}
			require.NoError(t, httpcall.Apply(tc.auth, tc.secret, req))
			require.Equal(t, tc.url, req.URL)
			require.Equal(t, tc.header, req.Header)
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	const secret = "S3CRET"
	tests := map[string]credential.Secret{
		"a line break in a token": credential.NewBearer(secret + "\r\nX: y"),
		"a line break in a key":   credential.NewAPIKey(secret + "\n"),
		"a colon in a user":       credential.NewBasic(secret+":", "p"),
		"a control in a password": credential.NewBasic("u", secret+"\x00"),
		"a reserved header":       credential.NewCustomHeader(map[string]string{"Host": secret}),
		"a header with a space":   credential.NewCustomHeader(map[string]string{"X Y": secret}),
		"a header value":          credential.NewCustomHeader(map[string]string{"X": secret + "\n"}),
		"a webhook secret":        opened(t, `{"type":"webhook_secret","key":"`+secret+`"}`, credential.WebhookSecret),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := httpcall.Apply(credential.Auth{Type: credential.APIKey, In: "header", Name: "X"}, s, &httpcall.Request{Header: http.Header{}})
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
			for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
				require.NotContains(t, fmt.Sprintf(verb, s), secret)
			}
		})
	}
}

func opened(t *testing.T, plaintext string, kind credential.Kind) credential.Secret {
	t.Helper()
	s, err := credential.ParseSecret([]byte(plaintext), kind)
	require.NoError(t, err)
	return s
}
