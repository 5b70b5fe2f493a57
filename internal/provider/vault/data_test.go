package vault

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/credential"
)

const canary = "canary-5f3a9c"

func TestParseType(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]credential.Kind{
		"api_key": credential.APIKey, "Bearer": credential.Bearer, "BASIC": credential.Basic, "custom_header": credential.CustomHeader, "schemes": credential.Schemes,
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
		typ  credential.Kind
		data string
		want string // what is sealed; stored secrets have this form
	}{
		"api key":        {credential.APIKey, `{"key":"sk_test_1"}`, `{"type":"api_key","key":"sk_test_1"}`},
		"inner blank":    {credential.APIKey, `{"key":"Token abc"}`, `{"type":"api_key","key":"Token abc"}`},
		"bearer":         {credential.Bearer, ` {"token":"t"} `, `{"type":"bearer","token":"t"}`},
		"basic":          {credential.Basic, `{"username":"ü","password":"p:ä "}`, `{"type":"basic","username":"ü","password":"p:ä "}`},
		"empty password": {credential.Basic, `{"username":"sk_1","password":""}`, `{"type":"basic","username":"sk_1"}`},
		"schemes": {
			credential.Schemes, `{"schemes":{"k 1/~":{"key":"k"},"b":{"username":"u","password":""},"t":{"token":"x"}}}`,
			`{"type":"schemes","schemes":{"b":{"type":"basic","username":"u"},"k 1/~":{"type":"api_key","key":"k"},"t":{"type":"bearer","token":"x"}}}`,
		},
		"headers": {
			credential.CustomHeader, `{"headers":{"X-App":"1","X-Key":"2"}}`,
			`{"type":"custom_header","headers":{"X-App":"1","X-Key":"2"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseData(tt.typ, json.RawMessage(tt.data))
			require.NoError(t, err)
			sealed, err := got.Plaintext()
			require.NoError(t, err)
			require.Equal(t, tt.want, string(sealed))
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
		typ        credential.Kind
		data, path string
	}{
		"absent":              {credential.APIKey, ``, "/data"},
		"null":                {credential.APIKey, `null`, "/data"},
		"array":               {credential.APIKey, `[]`, "/data"},
		"string":              {credential.APIKey, quoted(canary), "/data"},
		"no key":              {credential.APIKey, `{}`, "/data/key"},
		"key in another case": {credential.APIKey, `{"Key":"` + canary + `"}`, "/data/key"},
		"unknown field":       {credential.APIKey, `{"key":"k","` + canary + `":"x"}`, "/data"},
		"field of another":    {credential.Bearer, `{"token":"t","key":"` + canary + `"}`, "/data"},
		"key null":            {credential.APIKey, `{"key":null}`, "/data/key"},
		"key number":          {credential.APIKey, `{"key":7}`, "/data/key"},
		"key empty":           {credential.APIKey, `{"key":""}`, "/data/key"},
		"key too long":        {credential.APIKey, `{"key":"` + long + `"}`, "/data/key"},
		"key with CR LF":      {credential.APIKey, `{"key":` + quoted(canary+"\r\nX-Evil: 1") + `}`, "/data/key"},
		"key with newline":    {credential.APIKey, `{"key":` + quoted(canary+"\n") + `}`, "/data/key"},
		"key with NUL":        {credential.APIKey, `{"key":` + quoted(canary+"\x00") + `}`, "/data/key"},
		"key with DEL":        {credential.APIKey, `{"key":` + quoted(canary+"\x7f") + `}`, "/data/key"},
		"key not ASCII":       {credential.APIKey, `{"key":"` + canary + `é"}`, "/data/key"},
		"key ends in blank":   {credential.APIKey, `{"key":"` + canary + ` "}`, "/data/key"},
		"token with tab":      {credential.Bearer, `{"token":` + quoted("a\tb") + `}`, "/data/token"},
		"no password":         {credential.Basic, `{"username":"u"}`, "/data/password"},
		"both empty":          {credential.Basic, `{"username":"","password":""}`, "/data/username"},
		"colon in user":       {credential.Basic, `{"username":"` + canary + `:x","password":"p"}`, "/data/username"},
		"newline in password": {credential.Basic, `{"username":"u","password":` + quoted(canary+"\n") + `}`, "/data/password"},
		"schemes a list":      {credential.Schemes, `{"schemes":[]}`, "/data/schemes"},
		"no schemes":          {credential.Schemes, `{"schemes":{}}`, "/data/schemes"},
		"eleven schemes":      {credential.Schemes, `{"schemes":{` + strings.ReplaceAll(strings.Join(many[:maxSchemes+1], ","), `"v"`, `{"key":"k"}`) + `}}`, "/data/schemes"},
		"scheme without name": {credential.Schemes, `{"schemes":{"":{"key":"k"}}}`, "/data/schemes"},
		"scheme a text":       {credential.Schemes, `{"schemes":{"a/b":"` + canary + `"}}`, "/data/schemes/a~1b"},
		"scheme of nothing":   {credential.Schemes, `{"schemes":{"k1":{}}}`, "/data/schemes/k1"},
		"scheme of two kinds": {credential.Schemes, `{"schemes":{"k1":{"key":"k","token":"` + canary + `"}}}`, "/data/schemes/k1"},
		"scheme half":         {credential.Schemes, `{"schemes":{"k1":{"username":"u"}}}`, "/data/schemes/k1/password"},
		"scheme with newline": {credential.Schemes, `{"schemes":{"k1":{"key":` + quoted(canary+"\n") + `}}}`, "/data/schemes/k1/key"},
		"beside schemes":      {credential.Schemes, `{"schemes":{"k1":{"key":"k"}},"key":"` + canary + `"}`, "/data"},
		"headers array":       {credential.CustomHeader, `{"headers":[]}`, "/data/headers"},
		"headers null":        {credential.CustomHeader, `{"headers":null}`, "/data/headers"},
		"headers empty":       {credential.CustomHeader, `{"headers":{}}`, "/data/headers"},
		"headers too many":    {credential.CustomHeader, `{"headers":{` + strings.Join(many, ",") + `}}`, "/data/headers"},
		"name not a token":    {credential.CustomHeader, `{"headers":{"X Key":"v"}}`, "/data/headers"},
		"name with CR LF":     {credential.CustomHeader, `{"headers":{"X-A\r\nHost":"v"}}`, "/data/headers"},
		"name empty":          {credential.CustomHeader, `{"headers":{"":"v"}}`, "/data/headers"},
		"names twice":         {credential.CustomHeader, `{"headers":{"x-a":"1","X-A":"2"}}`, ""},
		"value with newline":  {credential.CustomHeader, `{"headers":{"X-A":` + quoted(canary+"\n1") + `}}`, "/data/headers/X-A"},
		"value empty":         {credential.CustomHeader, `{"headers":{"X-A":""}}`, "/data/headers/X-A"},
	}
	for _, name := range []string{
		"Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization", "Content-Type", "Idempotency-Key",
		"X-HTTP-Method-Override", "x_http_method", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded",
	} {
		tests["reserved "+name] = struct {
			typ        credential.Kind
			data, path string
		}{credential.CustomHeader, `{"headers":{"` + name + `":"v"}}`, "/data/headers/" + name}
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
