package redact_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

func TestMaskArgs(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, args, schema, want string
		paths                    []string
	}{
		{"nothing", ` {"a": 1.50, "b":[9007199254740993 , "x"], "c":null}`, ``, ` {"a": 1.50, "b":[9007199254740993 , "x"], "c":null}`, nil},
		{
			"names", `{"user":"u","password":"p","apiKey":"k","client_secret":"c","X-Auth-Token":"t","pin":1234}`, ``,
			`{"user":"u","password":"[masked]","apiKey":"[masked]","client_secret":"[masked]","X-Auth-Token":"[masked]","pin":0}`,
			[]string{"/password", "/apiKey", "/client_secret", "/X-Auth-Token", "/pin"},
		},
		{
			"card object", `{"card":{"number":"4242424242424242","exp_month":12,"cvc":"123"}}`, ``,
			`{"card":{"number":"***4242","exp_month":12,"cvc":"[masked]"}}`,
			[]string{"/card/number", "/card/cvc"},
		},
		{"number under card that is no card number", `{"card":{"number":"123"}}`, ``, `{"card":{"number":"[masked]"}}`, []string{"/card/number"}},
		{"number elsewhere", `{"order":{"number":"123"}}`, ``, `{"order":{"number":"123"}}`, nil},
		{"card in text", `{"note":"card 4242-4242 4242-4242, thanks"}`, ``, `{"note":"card ***4242, thanks"}`, []string{"/note"}},
		{"card as number", `{"x":4242424242424242}`, ``, `{"x":0}`, []string{"/x"}},
		{"not digits", `{"x":4242424242424.42,"y":-42424242424242e2}`, ``, `{"x":4242424242424.42,"y":-42424242424242e2}`, nil},
		{
			"not a card", `{"at":1700000000003,"s":"4242424242424241","ref":"a4242424242424242"}`, ``,
			`{"at":1700000000003,"s":"4242424242424241","ref":"a4242424242424242"}`, nil,
		},
		{"secret with a card in it", `{"secret":"abc 4242424242424242"}`, ``, `{"secret":"[masked]"}`, []string{"/secret"}},
		{
			"secret object and array", `{"credentials":{"a":"x","b":[1,true,null,"y"]},"tokens":["a"]}`, ``,
			`{"credentials":{"a":"[masked]","b":[0,true,null,"[masked]"]},"tokens":["[masked]"]}`,
			[]string{"/credentials/a", "/credentials/b/0", "/credentials/b/3", "/tokens/0"},
		},
		{
			"about a secret", `{"has_password":true,"max_tokens":100,"token_type":"bearer","page_token":"x","access_key_id":"AK"}`, ``,
			`{"has_password":true,"max_tokens":100,"token_type":"bearer","page_token":"x","access_key_id":"AK"}`, nil,
		},
		{
			"schema", `{"a":"x","b":{"c":true,"d":2},"e":["s"],"f":"y"}`,
			`{"properties":{"a":{"format":"password"},"b":{"writeOnly":true},"e":{"items":{"x-sensitive":true}}}}`,
			`{"a":"[masked]","b":{"c":false,"d":0},"e":["[masked]"],"f":"y"}`,
			[]string{"/a", "/b/c", "/b/d", "/e/0"},
		},
		{
			"a schema that was given up", `{"a":{"b":"x","c":[1,true,null]},"d":"y"}`, `{"properties":{"a":{"$ref":"#/$defs/G"}},"$defs":{"G":{"x-opaque":true}}}`,
			`{"a":{"b":"[masked]","c":[0,false,null]},"d":"y"}`,
			[]string{"/a/b", "/a/c/0", "/a/c/1"},
		},
		{
			"schema references", `{"a":{"n":"x","a":{"n":"y"}},"z":"z"}`,
			`{"properties":{"a":{"$ref":"#/$defs/no~1de"}},"additionalProperties":{"anyOf":[{"type":"null"},{"writeOnly":true}]},
			"$defs":{"no/de":{"allOf":[{"properties":{"n":{"writeOnly":true},"a":{"$ref":"#/$defs/no~1de"}}}]}}}`,
			`{"a":{"n":"[masked]","a":{"n":"[masked]"}},"z":"[masked]"}`,
			[]string{"/a/n", "/a/a/n", "/z"},
		},
		{"circular schema", `{"a":"x"}`, `{"$ref":"#","writeOnly":false,"properties":{"b":{"writeOnly":true}}}`, `{"a":"x"}`, nil},
		{"path is escaped", `{"a/b":{"~secret":"x"}}`, ``, `{"a/b":{"~secret":"[masked]"}}`, []string{"/a~1b/~0secret"}},
		{"escaped name", `{"pass\u0077ord":"x"}`, ``, `{"pass\u0077ord":"[masked]"}`, []string{"/password"}},
		{"empty string", `{"password":""}`, ``, `{"password":"[masked]"}`, []string{"/password"}},
		{"empty", `{}`, ``, `{}`, nil},
		{"not JSON", `{"password":`, ``, `"[masked]"`, []string{""}},
		{"bad schema", `{"a":1}`, `{"writeOnly"`, `{"a":0}`, []string{"/a"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, paths := redact.MaskArgs(json.RawMessage(tc.args), json.RawMessage(tc.schema))
			require.Equal(t, tc.want, string(got))
			require.Equal(t, tc.paths, paths)
			require.True(t, json.Valid(got))
		})
	}
}

func TestLooksSecret(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq(`password passwd PASSWORD userPassword user_password newpassword secret token accessToken
		refresh_token api_key apikey APIKey X-API-Key authorization Cookie set-cookie private_key client_secret clientSecret
		cvc cvv card_number cardNumber ssn pin iban otp jwt secretKey webhook_secret`) {
		require.True(t, redact.LooksSecret(name), name)
	}
	for name := range strings.FieldsSeq(`user id key name number pinned keyboard public_key idempotency_key page_token nextPageToken
		max_tokens token_type tokenize secretary ping opinion shipping account card token_count api_key_id`) {
		require.False(t, redact.LooksSecret(name), name)
	}
	require.False(t, redact.LooksSecret(""))
}

func TestMaskURL(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"https://a.example/x?y=1":                           "https://a.example/x?y=1",
		"https://u:p@a.example/x":                           "https://[masked]@a.example/x",
		"https://a.example/?api_key=abc&b=2&key=k&token=":   "https://a.example/?api_key=[masked]&b=2&key=[masked]&token=",
		"https://a.example/cb#access_token=abc&state=s":     "https://a.example/cb#access_token=[masked]&state=s",
		"https://a.example/?%61pi_key=abc":                  "https://a.example/?%61pi_key=[masked]",
		"postgres://app:secret@127.0.0.1:5432/x?sslmode=no": "postgres://[masked]@127.0.0.1:5432/x?sslmode=no",
		"http://[::1":     "[masked]",
		"/relative?sig=1": "/relative?sig=[masked]",
	}
	for in, want := range cases {
		require.Equal(t, want, redact.MaskURL(in))
	}
}

func TestMaskHeaders(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Authorization": {"Bearer x"}, "Set-Cookie": {"a=b", "c=d"}, "X-Api-Key": {"k"}, "X-Shop-Key": {"k"},
		"Content-Type": {"application/json"}, "Idempotency-Key": {"i"},
	}
	got := redact.MaskHeaders(header)
	require.Equal(t, map[string][]string{
		"Authorization": {"[masked]"}, "Set-Cookie": {"[masked]", "[masked]"}, "X-Api-Key": {"[masked]"},
		"X-Shop-Key": {"[masked]"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"i"},
	}, got)
	require.Equal(t, "Bearer x", header.Get("Authorization"), "the input is not changed")
}

type credential struct{ key string }

func (c credential) LogValue() slog.Value {
	return slog.GroupValue(slog.String("api_key", c.key), slog.String("label", "main"))
}

func TestLogHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(redact.NewLogHandler(slog.NewTextHandler(&out, nil)))
	log.With("token", "hidden1").WithGroup("g").Info("hello", "password", "hidden2", "n", 1,
		slog.Group("deep", "secret", "hidden3", "ok", "shown"), "cred", credential{"hidden4"})
	log.Debug("not enabled")
	require.NotContains(t, out.String(), "hidden")
	require.Contains(t, out.String(), "token=[masked] g.password=[masked] g.n=1 g.deep.secret=[masked] g.deep.ok=shown")
	require.Contains(t, out.String(), "g.cred.api_key=[masked] g.cred.label=main")
	require.NotContains(t, out.String(), "not enabled")
}

func BenchmarkMask(b *testing.B) {
	args := json.RawMessage(`{"customer_id":"cus_1","amount":1999,"currency":"eur","items":[{"sku":"A-1","quantity":2}],"api_key":"k"}`)
	m := redact.NewMasker(nil)
	b.ReportAllocs()
	for b.Loop() {
		m.Mask(args)
	}
}

// Names can be long and hidden values many, so paths are few and short.
func TestPathsOfWhatIsHiddenAreBounded(t *testing.T) {
	t.Parallel()
	m := redact.NewMasker(json.RawMessage(`{"writeOnly":true}`))
	doc := `{"` + strings.Repeat("n", 100_000) + `":[` + strings.TrimSuffix(strings.Repeat("1,", 5_000), ",") + `]}`
	out, paths := m.Mask(json.RawMessage(doc))
	require.Equal(t, strings.ReplaceAll(doc, "1", "0"), string(out))
	require.Len(t, paths, 1000)
	for _, p := range paths {
		require.Less(t, len(p), 100)
	}
	_, places, err := redact.Restore(json.RawMessage(doc), out, out)
	require.NoError(t, err)
	require.Len(t, places, 20)
	require.Less(t, len(places[0]), 100)
}
