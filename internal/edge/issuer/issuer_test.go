package issuer_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/edge/issuer"
)

// provider is an issuer with one key of each kind.
type provider struct {
	t       *testing.T
	url     string
	now     atomic.Pointer[time.Time]
	set     atomic.Pointer[string] // what it publishes
	status  atomic.Int64
	fetches atomic.Int64
	keys    map[string]crypto.Signer // by algorithm, which is the kid too
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, keys: map[string]crypto.Signer{}}
	p.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	p.status.Store(http.StatusOK)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p.keys["EdDSA"], p.keys["ES256"], p.keys["RS256"] = ed, ec, long
	p.publish(published(ed, "EdDSA"), published(ec, "ES256"), published(long, "RS256"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		w.WriteHeader(int(p.status.Load()))
		_, _ = w.Write([]byte(*p.set.Load()))
	}))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *provider) at(now time.Time)       { p.now.Store(&now) }
func (p *provider) later(d time.Duration)  { p.at(p.now.Load().Add(d)) }
func (p *provider) publish(keys ...object) { text := toJSON(object{"keys": keys}); p.set.Store(&text) }

type object = map[string]any

func toJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of plain values
	}
	return string(raw)
}

// published is the key as a key set has it.
func published(key crypto.Signer, id string) object {
	switch public := key.Public().(type) {
	case ed25519.PublicKey:
		return object{"kty": "OKP", "crv": "Ed25519", "kid": id, "use": "sig", "x": b64(public)}
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic(err) // the key was just made
		}
		return object{"kty": "EC", "crv": "P-256", "kid": id, "x": b64(point[1:33]), "y": b64(point[33:])}
	case *rsa.PublicKey:
		return object{"kty": "RSA", "kid": id, "alg": "RS256", "n": b64(public.N.Bytes()), "e": b64(big.NewInt(int64(public.E)).Bytes())}
	}
	panic("another kind of key")
}

func (p *provider) verifier() *issuer.Verifier {
	p.t.Helper()
	v, err := issuer.New(issuer.Config{
		KeysURL: p.url, Issuer: "https://id.example.com", Audience: "codec", Claim: "groups", Value: "operators",
	}, egress.NewClient(egress.Config{AllowLoopback: true}), func() time.Time { return *p.now.Load() })
	require.NoError(p.t, err)
	return v
}

// token signs a good token, changed.
func (p *provider) token(algorithm string, change func(header, claims object)) string {
	p.t.Helper()
	now := p.now.Load().Unix()
	t := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims{
		"iss": "https://id.example.com", "aud": []string{"codec"}, "iat": now, "exp": now + 300, "groups": []string{"staff", "operators"},
	})
	t.Header["kid"] = algorithm
	if change != nil {
		change(t.Header, t.Claims.(jwt.MapClaims))
	}
	text, err := t.SignedString(p.keys[algorithm])
	require.NoError(p.t, err)
	return text
}

func TestTokenOfEachAlgorithmPasses(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v := p.verifier()
	for algorithm := range p.keys {
		require.NoError(t, v.Verify(t.Context(), p.token(algorithm, nil)), algorithm)
		for _, typ := range []string{"JWT", "at+jwt", "application/at+jwt"} {
			require.NoError(t, v.Verify(t.Context(), p.token(algorithm, func(h, _ object) { h["typ"] = typ })), typ)
		}
	}
	require.EqualValues(t, 1, p.fetches.Load(), "the keys are kept")
}

func TestTokenThatIsNotGoodIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v := p.verifier()
	now := p.now.Load().Unix()
	for name, change := range map[string]func(header, claims object){
		"expired":                func(_, c object) { c["exp"] = now - 60 },
		"never expires":          func(_, c object) { delete(c, "exp") },
		"not valid yet":          func(_, c object) { c["nbf"] = now + 60 },
		"issued later":           func(_, c object) { c["iat"] = now + 60 },
		"of another issuer":      func(_, c object) { c["iss"] = "https://id.example.com.evil" },
		"of no issuer":           func(_, c object) { delete(c, "iss") },
		"for another audience":   func(_, c object) { c["aud"] = "console" },
		"for no audience":        func(_, c object) { delete(c, "aud") },
		"without the claim":      func(_, c object) { delete(c, "groups") },
		"with another group":     func(_, c object) { c["groups"] = []string{"operators2"} },
		"with words in a claim":  func(_, c object) { c["groups"] = "staff operators" },
		"with an object as list": func(_, c object) { c["groups"] = object{"operators": true} },
		"of an unknown key":      func(h, _ object) { h["kid"] = "other" },
		"of another type":        func(h, _ object) { h["typ"] = "logout+jwt" },
		"of a type that no text": func(h, _ object) { h["typ"] = 1 },
		"with an extension":      func(h, _ object) { h["crit"] = []string{"b64"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, v.Verify(t.Context(), p.token("EdDSA", change)))
		})
	}
	good := p.token("EdDSA", nil)
	require.Error(t, v.Verify(t.Context(), ""))
	require.Error(t, v.Verify(t.Context(), good[:len(good)-2]))
	require.Error(t, v.Verify(t.Context(), good+strings.Repeat("a", 16<<10)))
}

// A key verifies its own algorithm only, and none and HMAC have no key.
func TestTokenOfAnotherAlgorithmIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v := p.verifier()
	for _, header := range []object{{"alg": "none"}, {"alg": "HS256", "kid": "RS256"}, {"alg": "RS512", "kid": "RS256"}} {
		parts := strings.Split(p.token("RS256", nil), ".")
		parts[0] = b64([]byte(toJSON(header)))
		require.Error(t, v.Verify(t.Context(), strings.Join(parts, ".")), header)
	}
	require.Error(t, v.Verify(t.Context(), p.token("ES256", func(h, _ object) { h["kid"] = "RS256" })))
}

func TestScopeIsAListOfWords(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v, err := issuer.New(issuer.Config{KeysURL: p.url, Issuer: "https://id.example.com", Audience: "codec", Claim: "scope", Value: "codec:read"},
		egress.NewClient(egress.Config{AllowLoopback: true}), func() time.Time { return *p.now.Load() })
	require.NoError(t, err)
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", func(_, c object) { c["scope"] = "openid codec:read" })))
	require.Error(t, v.Verify(t.Context(), p.token("EdDSA", func(_, c object) { c["scope"] = "codec:readwrite" })))
}

func TestKeyThatIsWeakOrForSomethingElseVerifiesNothing(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	off := published(p.keys["ES256"], "ES256")
	off["y"] = off["x"]
	encrypts := published(p.keys["EdDSA"], "EdDSA")
	encrypts["use"] = "enc"
	other := published(p.keys["RS256"], "RS256")
	other["alg"] = "PS256"
	p.publish(published(short, "short"), off, encrypts, other)
	for algorithm := range p.keys {
		require.Error(t, p.verifier().Verify(t.Context(), p.token(algorithm, nil)), algorithm)
	}
}

func TestKeysAreFetchedAgainWhenAnIssuerRotates(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v := p.verifier()
	p.publish(published(p.keys["ES256"], "ES256"))
	require.NoError(t, v.Verify(t.Context(), p.token("ES256", nil)))
	p.publish(published(p.keys["EdDSA"], "EdDSA"))
	for range 5 {
		require.Error(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	}
	require.EqualValues(t, 1, p.fetches.Load(), "tokens of unknown keys do not make it ask the issuer each time")
	p.later(time.Minute)
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	require.Error(t, v.Verify(t.Context(), p.token("ES256", nil)), "a withdrawn key")
}

// An issuer that does not answer keeps the owner of an unknown key waiting, and nobody else.
func TestStrangersTokenMakesNobodyElseWait(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p.fetches.Add(1) > 1 {
			close(asked)
			<-answer
		}
		_, _ = w.Write([]byte(*p.set.Load()))
	}))
	t.Cleanup(slow.Close)
	letAnswer := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(letAnswer)
	p.url = slow.URL
	v := p.verifier()
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	p.later(time.Minute)
	strange, refused := p.token("EdDSA", func(h, _ object) { h["kid"] = "other" }), make(chan error, 1)
	go func() { refused <- v.Verify(t.Context(), strange) }()
	<-asked
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	gone, leave := context.WithCancel(t.Context())
	leave()
	require.ErrorIs(t, v.Verify(gone, strange), context.Canceled)
	require.Empty(t, refused, "the issuer has not answered yet")
	letAnswer()
	require.Error(t, <-refused)
}

func TestKeysLastAnHourWhileTheIssuerIsAway(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v := p.verifier()
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	p.status.Store(http.StatusServiceUnavailable)
	p.later(59 * time.Minute)
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	p.later(2 * time.Minute)
	require.Error(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	require.Error(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
	p.status.Store(http.StatusOK)
	p.later(time.Minute)
	require.NoError(t, v.Verify(t.Context(), p.token("EdDSA", nil)))
}

func TestKeySetThatIsHugeOrBrokenIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"huge": `{"keys":[` + strings.Repeat(" ", 257<<10) + `]}`, "not JSON": "<html>", "empty": `{"keys":[]}`, "odd": `{"keys":[1,{"kty":2}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			p.set.Store(&text)
			require.Error(t, p.verifier().Verify(t.Context(), p.token("EdDSA", nil)))
		})
	}
}

// The address of the keys is a setting, and still only public addresses are reached.
func TestKeysAreFetchedThroughTheEgressGuard(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	v, err := issuer.New(issuer.Config{KeysURL: p.url, Issuer: "i", Audience: "a", Claim: "c", Value: "v"}, egress.NewClient(egress.Config{}), time.Now)
	require.NoError(t, err)
	require.ErrorIs(t, v.Verify(t.Context(), p.token("EdDSA", nil)), egress.ErrRefused)
	require.Zero(t, p.fetches.Load())
}

func TestVerifierWithoutASettingIsRefused(t *testing.T) {
	t.Parallel()
	_, err := issuer.New(issuer.Config{KeysURL: "https://id.example.com"}, egress.NewClient(egress.Config{}), time.Now)
	require.ErrorContains(t, err, "are required")
}
