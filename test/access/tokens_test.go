package access

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// forgery is a token taken apart, to be put together otherwise.
type forgery struct {
	header, claims map[string]any
	sign           func(text []byte) []byte
}

// takeApart reads a genuine token; what is put together from it unchanged is genuine too.
func takeApart(tb testing.TB, token string, key ed25519.PrivateKey) forgery {
	tb.Helper()
	parts := strings.Split(token, ".")
	require.Len(tb, parts, 3)
	f := forgery{sign: func(text []byte) []byte { return ed25519.Sign(key, text) }}
	for i, into := range []*map[string]any{&f.header, &f.claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(tb, err)
		require.NoError(tb, json.Unmarshal(raw, into))
	}
	return f
}

// with returns a copy with some members changed, or removed where the value is nil.
func (f forgery) with(header, claims map[string]any) forgery {
	f.header, f.claims = merged(f.header, header), merged(f.claims, claims)
	return f
}

func merged(base, change map[string]any) map[string]any {
	out := maps.Clone(base)
	for name, value := range change {
		if value == nil {
			delete(out, name)
			continue
		}
		out[name] = value
	}
	return out
}

// by returns a copy that is signed otherwise.
func (f forgery) by(sign func(text []byte) []byte) forgery {
	f.sign = sign
	return f
}

func (f forgery) token(tb testing.TB) string {
	tb.Helper()
	text := base64.RawURLEncoding.EncodeToString(encode(tb, f.header)) + "." + base64.RawURLEncoding.EncodeToString(encode(tb, f.claims))
	return text + "." + base64.RawURLEncoding.EncodeToString(f.sign([]byte(text)))
}

// badTokens returns tokens that must be refused, each with its code.
func (w *world) badTokens(tb testing.TB) map[string][2]string {
	tb.Helper()
	genuine := takeApart(tb, w.a.token, w.seed)
	now := time.Now().Unix()
	_, stranger, err := ed25519.GenerateKey(nil)
	require.NoError(tb, err)
	public, _ := w.seed.Public().(ed25519.PublicKey)
	other := takeApart(tb, w.b.token, w.seed)
	over, _ := w.a.User.NewUser(tb, "over-"+uuid.NewString()+"@example.com", "member")
	require.Equal(tb, 200, over.Do("POST", "/v1/auth/logout", nil).Status)
	sign := func(header, claims map[string]any) string { return genuine.with(header, claims).token(tb) }
	const invalid, expired = "INVALID_TOKEN", "TOKEN_EXPIRED"
	return map[string][2]string{
		"token expired":               {sign(nil, map[string]any{"iat": now - 7200, "nbf": now - 7200, "exp": now - 3600}), expired},
		"token of a stranger's key":   {genuine.by(func(text []byte) []byte { return ed25519.Sign(stranger, text) }).token(tb), invalid},
		"token with alg none":         {genuine.with(map[string]any{"alg": "none"}, nil).by(func([]byte) []byte { return nil }).token(tb), invalid},
		"token with alg HS256":        {genuine.with(map[string]any{"alg": "HS256"}, nil).by(hs256(public)).token(tb), invalid},
		"token with typ at+jwt":       {sign(map[string]any{"typ": "at+jwt"}, nil), invalid},
		"token without typ":           {sign(map[string]any{"typ": nil}, nil), invalid},
		"token with crit":             {sign(map[string]any{"crit": []string{"exp"}}, nil), invalid},
		"token with an unknown kid":   {sign(map[string]any{"kid": "AAAAAAAAAAAAAAAA"}, nil), invalid},
		"token without kid":           {sign(map[string]any{"kid": nil}, nil), invalid},
		"token without exp":           {sign(nil, map[string]any{"exp": nil}), invalid},
		"token without iat":           {sign(nil, map[string]any{"iat": nil}), invalid},
		"token without nbf":           {sign(nil, map[string]any{"nbf": nil}), invalid},
		"token that lives too long":   {sign(nil, map[string]any{"exp": now + 86400}), invalid},
		"token not valid yet":         {sign(nil, map[string]any{"nbf": now + 1800}), invalid},
		"token of another issuer":     {sign(nil, map[string]any{"iss": "someone"}), invalid},
		"token for another audience":  {sign(nil, map[string]any{"aud": []string{"someone"}}), invalid},
		"token without session":       {sign(nil, map[string]any{"sid": nil}), invalid},
		"token of the wrong tenant":   {sign(nil, map[string]any{"tid": other.claims["tid"]}), invalid},
		"token of another's session":  {sign(nil, map[string]any{"sid": other.claims["sid"]}), invalid},
		"token of another user":       {sign(nil, map[string]any{"sub": other.claims["sub"]}), invalid},
		"token of an ended session":   {over.Token, invalid},
		"token cut short":             {w.a.token[:len(w.a.token)-4], invalid},
		"token that is none":          {"x.y.z", invalid},
		"token of 8 KiB":              {w.a.token + strings.Repeat("A", 8<<10), invalid},
		"token with an empty segment": {strings.Split(w.a.token, ".")[0] + ".." + strings.Split(w.a.token, ".")[2], invalid},
	}
}

func hs256(secret []byte) func([]byte) []byte {
	return func(text []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(text)
		return mac.Sum(nil)
	}
}

// unknownKey is well-formed, its checksum too, and was never issued.
func unknownKey() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	body := "ark_" + strings.Repeat("Zz9", 10)
	sum, check := crc32.ChecksumIEEE([]byte(body)), [6]byte{}
	for i := len(check) - 1; i >= 0; i-- {
		check[i] = digits[sum%62]
		sum /= 62
	}
	return body + string(check[:])
}
