package vault

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/fault"
)

func TestParseType(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Type{
		"api_key": TypeAPIKey, "Bearer": TypeBearer, "BASIC": TypeBasic, "custom_header": TypeCustomHeader,
	} {
		got, err := ParseType(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"oauth2", "webhook_secret"} {
		_, err := ParseType(in)
		require.True(t, fault.HasCode(err, fault.CodeValidation))
		require.Contains(t, fault.As(err).Message, "not supported yet")
	}
	_, err := ParseType("password")
	require.True(t, fault.HasCode(err, fault.CodeValidation))
}

func TestParseData(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		typ  Type
		data string
		want content
	}{
		"api key":        {TypeAPIKey, `{"key":"sk_test_1"}`, content{Type: TypeAPIKey, Key: "sk_test_1"}},
		"inner blank":    {TypeAPIKey, `{"key":"Token abc"}`, content{Type: TypeAPIKey, Key: "Token abc"}},
		"bearer":         {TypeBearer, ` {"token":"t"} `, content{Type: TypeBearer, Token: "t"}},
		"basic":          {TypeBasic, `{"username":"ü","password":"p:ä "}`, content{Type: TypeBasic, Username: "ü", Password: "p:ä "}},
		"empty password": {TypeBasic, `{"username":"sk_1","password":""}`, content{Type: TypeBasic, Username: "sk_1"}},
		"headers": {
			TypeCustomHeader, `{"headers":{"X-App":"1","X-Key":"2"}}`,
			content{Type: TypeCustomHeader, Headers: map[string]string{"X-App": "1", "X-Key": "2"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseData(tt.typ, json.RawMessage(tt.data))
			require.NoError(t, err)
			require.Equal(t, tt.want, *got)

			sealed, err := json.Marshal(got)
			require.NoError(t, err)
			again, err := parseContent(sealed, tt.typ)
			require.NoError(t, err)
			require.Equal(t, tt.want, *again)
		})
	}
}

func TestParseDataRefuses(t *testing.T) {
	t.Parallel()
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		require.NoError(t, err)
		return string(b)
	}
	long := strings.Repeat("a", maxSecret+1)
	many := make([]string, maxHeaders+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"X-%d":"v"`, i)
	}
	tests := map[string]struct {
		typ        Type
		data, path string
	}{
		"absent":              {TypeAPIKey, ``, "/data"},
		"null":                {TypeAPIKey, `null`, "/data"},
		"array":               {TypeAPIKey, `[]`, "/data"},
		"string":              {TypeAPIKey, quoted(canary), "/data"},
		"no key":              {TypeAPIKey, `{}`, "/data/key"},
		"key in another case": {TypeAPIKey, `{"Key":"` + canary + `"}`, "/data/key"},
		"unknown field":       {TypeAPIKey, `{"key":"k","` + canary + `":"x"}`, "/data"},
		"field of another":    {TypeBearer, `{"token":"t","key":"` + canary + `"}`, "/data"},
		"key null":            {TypeAPIKey, `{"key":null}`, "/data/key"},
		"key number":          {TypeAPIKey, `{"key":7}`, "/data/key"},
		"key empty":           {TypeAPIKey, `{"key":""}`, "/data/key"},
		"key too long":        {TypeAPIKey, `{"key":"` + long + `"}`, "/data/key"},
		"key with CR LF":      {TypeAPIKey, `{"key":` + quoted(canary+"\r\nX-Evil: 1") + `}`, "/data/key"},
		"key with newline":    {TypeAPIKey, `{"key":` + quoted(canary+"\n") + `}`, "/data/key"},
		"key with NUL":        {TypeAPIKey, `{"key":` + quoted(canary+"\x00") + `}`, "/data/key"},
		"key with DEL":        {TypeAPIKey, `{"key":` + quoted(canary+"\x7f") + `}`, "/data/key"},
		"key not ASCII":       {TypeAPIKey, `{"key":"` + canary + `é"}`, "/data/key"},
		"key ends in blank":   {TypeAPIKey, `{"key":"` + canary + ` "}`, "/data/key"},
		"token with tab":      {TypeBearer, `{"token":` + quoted("a\tb") + `}`, "/data/token"},
		"no password":         {TypeBasic, `{"username":"u"}`, "/data/password"},
		"both empty":          {TypeBasic, `{"username":"","password":""}`, "/data/username"},
		"colon in user":       {TypeBasic, `{"username":"` + canary + `:x","password":"p"}`, "/data/username"},
		"newline in password": {TypeBasic, `{"username":"u","password":` + quoted(canary+"\n") + `}`, "/data/password"},
		"headers array":       {TypeCustomHeader, `{"headers":[]}`, "/data/headers"},
		"headers null":        {TypeCustomHeader, `{"headers":null}`, "/data/headers"},
		"headers empty":       {TypeCustomHeader, `{"headers":{}}`, "/data/headers"},
		"headers too many":    {TypeCustomHeader, `{"headers":{` + strings.Join(many, ",") + `}}`, "/data/headers"},
		"name not a token":    {TypeCustomHeader, `{"headers":{"X Key":"v"}}`, "/data/headers"},
		"name with CR LF":     {TypeCustomHeader, `{"headers":{"X-A\r\nHost":"v"}}`, "/data/headers"},
		"name empty":          {TypeCustomHeader, `{"headers":{"":"v"}}`, "/data/headers"},
		"names twice":         {TypeCustomHeader, `{"headers":{"x-a":"1","X-A":"2"}}`, ""},
		"value with newline":  {TypeCustomHeader, `{"headers":{"X-A":` + quoted(canary+"\n1") + `}}`, "/data/headers/X-A"},
		"value empty":         {TypeCustomHeader, `{"headers":{"X-A":""}}`, "/data/headers/X-A"},
	}
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization", "Content-Type", "Idempotency-Key"} {
		tests["reserved "+name] = struct {
			typ        Type
			data, path string
		}{TypeCustomHeader, `{"headers":{"` + name + `":"v"}}`, "/data/headers/" + name}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseData(tt.typ, json.RawMessage(tt.data))
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			f := fault.As(err)
			if tt.path != "" {
				require.Equal(t, tt.path, f.Details[0].Path)
			}
			require.NotContains(t, fmt.Sprintf("%+v", f.Details)+f.Error(), canary)
		})
	}
}
