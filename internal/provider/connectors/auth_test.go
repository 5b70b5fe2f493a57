package connectors_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/connectors"
)

func TestApply(t *testing.T) {
	t.Parallel()
	key := connectors.Secret{Type: connectors.SecretAPIKey, Key: "k&1"}
	token := connectors.Secret{Type: connectors.SecretBearer, Token: "tok"}
	basic := connectors.Secret{Type: connectors.SecretBasic, Username: "u", Password: "p:w"}
	custom := connectors.Secret{Type: connectors.SecretCustomHeader, Headers: map[string]string{"X-One": "1", "x-two": "2"}}
	inHeader := connectors.Auth{Type: connectors.AuthAPIKey, In: "header", Name: "X-API-Key"}
	inQuery := connectors.Auth{Type: connectors.AuthAPIKey, In: "query", Name: "api key"}
	inCookie := connectors.Auth{Type: connectors.AuthAPIKey, In: "cookie", Name: "sid"}
	const plain = "https://a.example/x?q=1&api%20key=mine"
	tests := map[string]struct {
		auth   connectors.Auth
		secret connectors.Secret
		url    string
		header http.Header
	}{
		"key in a header":         {inHeader, key, plain, http.Header{"X-Api-Key": {"k&1"}}},
		"key in the query":        {inQuery, key, "https://a.example/x?q=1&api%20key=k%261", http.Header{}},
		"key in a cookie":         {inCookie, key, plain, http.Header{"Cookie": {"sid=k%261"}}},
		"key as bearer":           {connectors.Auth{Type: connectors.AuthBearer}, key, plain, http.Header{"Authorization": {"Bearer k&1"}}},
		"key as basic user":       {connectors.Auth{Type: connectors.AuthBasic}, key, plain, http.Header{"Authorization": {"Basic ayYxOg=="}}},
		"bearer":                  {connectors.Auth{Type: connectors.AuthBearer}, token, plain, http.Header{"Authorization": {"Bearer tok"}}},
		"bearer where basic is":   {connectors.Auth{Type: connectors.AuthBasic}, token, plain, http.Header{"Authorization": {"Bearer tok"}}},
		"bearer where a key is":   {inHeader, token, plain, http.Header{"X-Api-Key": {"tok"}}},
		"bearer for oauth2":       {connectors.Auth{Type: connectors.AuthOAuth2}, token, plain, http.Header{"Authorization": {"Bearer tok"}}},
		"basic":                   {connectors.Auth{Type: connectors.AuthBasic}, basic, plain, http.Header{"Authorization": {"Basic dTpwOnc="}}},
		"basic where bearer is":   {connectors.Auth{Type: connectors.AuthBearer}, basic, plain, http.Header{"Authorization": {"Basic dTpwOnc="}}},
		"headers":                 {connectors.Auth{Type: connectors.AuthCustomHeader}, custom, plain, http.Header{"X-One": {"1"}, "X-Two": {"2"}}},
		"none leaves it alone":    {connectors.Auth{Type: connectors.AuthNone}, token, plain, http.Header{}},
		"headers where bearer is": {connectors.Auth{Type: connectors.AuthBearer}, custom, plain, http.Header{"X-One": {"1"}, "X-Two": {"2"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &connectors.Request{Method: "GET", URL: plain, Header: http.Header{}}
			require.NoError(t, connectors.Apply(tc.auth, tc.secret, req))
			require.Equal(t, tc.url, req.URL)
			require.Equal(t, tc.header, req.Header)
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	const secret = "S3CRET"
	tests := map[string]connectors.Secret{
		"a line break in a token":  {Type: connectors.SecretBearer, Token: secret + "\r\nX: y"},
		"a line break in a key":    {Type: connectors.SecretAPIKey, Key: secret + "\n"},
		"a colon in a user":        {Type: connectors.SecretBasic, Username: secret + ":", Password: "p"},
		"a control in a password":  {Type: connectors.SecretBasic, Username: "u", Password: secret + "\x00"},
		"a header that is not his": {Type: connectors.SecretCustomHeader, Headers: map[string]string{"Host": secret}},
		"a header with a space":    {Type: connectors.SecretCustomHeader, Headers: map[string]string{"X Y": secret}},
		"a header value":           {Type: connectors.SecretCustomHeader, Headers: map[string]string{"X": secret + "\n"}},
		"a webhook secret":         {Type: "webhook_secret", Key: secret},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := connectors.Apply(connectors.Auth{Type: connectors.AuthAPIKey, In: "header", Name: "X"}, s, &connectors.Request{Header: http.Header{}})
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
			for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
				require.NotContains(t, fmt.Sprintf(verb, s), secret)
			}
		})
	}
}
