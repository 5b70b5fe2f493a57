package auth_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/auth"
)

const (
	issuer   = "agentruntime"
	audience = "agentruntime-api"
)

func seed(n byte) []byte { return bytes.Repeat([]byte{n}, ed25519.SeedSize) }

func signingKey(n byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed(n)) }

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newTokens(t *testing.T, c *clock, signing []byte, old ...[]byte) *auth.Tokens {
	t.Helper()
	tokens, err := auth.NewTokens(auth.TokensConfig{
		Issuer: issuer, Audience: audience, SigningSeed: signing, VerifyingSeeds: old, Now: c.now,
	})
	require.NoError(t, err)
	return tokens
}

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	c := newClock()
	tokens := newTokens(t, c, seed(1))
	user, tenant, session := uuid.New(), uuid.New(), uuid.New()
	raw, lifetime, err := tokens.Issue(user, tenant, session)
	require.NoError(t, err)
	require.Equal(t, time.Hour, lifetime)

	got, err := tokens.Verify(raw)
	require.NoError(t, err)
	require.Equal(t, auth.Claims{UserID: user, TenantID: tenant, SessionID: session}, got)

	c.at = c.at.Add(time.Hour - time.Second)
	_, err = tokens.Verify(raw)
	require.NoError(t, err)
	c.at = c.at.Add(time.Second)
	_, err = tokens.Verify(raw)
	require.Equal(t, fault.CodeTokenExpired, fault.As(err).Code)
	c.at = c.at.Add(-time.Hour - 4*time.Second)
	_, err = tokens.Verify(raw)
	require.NoError(t, err, "another process's clock may be a little behind")
	c.at = c.at.Add(-2 * time.Second)
	_, err = tokens.Verify(raw)
	require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code)
}

func TestTokenKeyRotation(t *testing.T) {
	t.Parallel()
	c := newClock()
	old, fresh := seed(1), seed(2)
	raw, _, err := newTokens(t, c, old).Issue(uuid.New(), uuid.New(), uuid.New())
	require.NoError(t, err)

	_, err = newTokens(t, c, fresh, old).Verify(raw)
	require.NoError(t, err)
	_, err = newTokens(t, c, fresh).Verify(raw)
	require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code)
}

// forged is a token made by hand: header and claims of a good one, changed.
type forged struct {
	header map[string]any
	claims jwt.MapClaims
	method jwt.SigningMethod
	key    any
}

func (f forged) String() string {
	tok := jwt.NewWithClaims(f.method, f.claims)
	tok.Header = f.header
	raw, err := tok.SignedString(f.key)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	c := newClock()
	key := signingKey(1)
	tokens := newTokens(t, c, seed(1))
	good, _, err := tokens.Issue(uuid.New(), uuid.New(), uuid.New())
	require.NoError(t, err)
	fresh := func() forged {
		tok, _, err := jwt.NewParser().ParseUnverified(good, jwt.MapClaims{})
		require.NoError(t, err)
		return forged{header: tok.Header, claims: tok.Claims.(jwt.MapClaims), method: jwt.SigningMethodEdDSA, key: key}
	}
	_, err = tokens.Verify(fresh().String())
	require.NoError(t, err, "an unchanged copy is good")
	pkix, err := x509.MarshalPKIXPublicKey(public(key))
	require.NoError(t, err)

	now := float64(c.at.Unix())
	cases := map[string]func(f *forged){
		"other key": func(f *forged) { f.key = signingKey(9) },
		"alg none": func(f *forged) {
			f.method, f.key = jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType
			f.header["alg"] = "none"
		},
		"HMAC with our key": func(f *forged) {
			f.method, f.key = jwt.SigningMethodHS256, []byte(public(key))
			f.header["alg"] = "HS256"
		},
		"HMAC with our PKIX":  func(f *forged) { f.method, f.key = jwt.SigningMethodHS256, pkix; f.header["alg"] = "HS256" },
		"no typ":              func(f *forged) { delete(f.header, "typ") },
		"other typ":           func(f *forged) { f.header["typ"] = "at+jwt" },
		"typ not a string":    func(f *forged) { f.header["typ"] = 1 },
		"crit":                func(f *forged) { f.header["crit"] = []string{"exp"} },
		"crit null":           func(f *forged) { f.header["crit"] = nil },
		"no kid":              func(f *forged) { delete(f.header, "kid") },
		"unknown kid":         func(f *forged) { f.header["kid"] = "x" },
		"other issuer":        func(f *forged) { f.claims["iss"] = "x" },
		"no issuer":           func(f *forged) { delete(f.claims, "iss") },
		"other audience":      func(f *forged) { f.claims["aud"] = "x" },
		"no audience":         func(f *forged) { delete(f.claims, "aud") },
		"no sub":              func(f *forged) { delete(f.claims, "sub") },
		"sub not an id":       func(f *forged) { f.claims["sub"] = "x" },
		"sub of zeroes":       func(f *forged) { f.claims["sub"] = uuid.Nil.String() },
		"no tid":              func(f *forged) { delete(f.claims, "tid") },
		"no sid":              func(f *forged) { delete(f.claims, "sid") },
		"sid not a string":    func(f *forged) { f.claims["sid"] = 1 },
		"no iat":              func(f *forged) { delete(f.claims, "iat") },
		"no nbf":              func(f *forged) { delete(f.claims, "nbf") },
		"nbf to come":         func(f *forged) { f.claims["nbf"] = now + 10 },
		"no exp":              func(f *forged) { delete(f.claims, "exp") },
		"longer life":         func(f *forged) { f.claims["exp"] = now + 3601 },
		"expired and foreign": func(f *forged) { f.claims["exp"], f.claims["iss"] = now-1, "x" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fresh()
			change(&f)
			_, err := tokens.Verify(f.String())
			require.Error(t, err)
			require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code)
		})
	}
	for name, raw := range map[string]string{
		"empty": "", "no dots": "x", "four parts": good + ".x", "padded": good + "=", "space": " " + good,
		"too long": good + strings.Repeat("A", 4096), "cut": good[:len(good)-1], "not base64": "!." + good,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tokens.Verify(raw)
			require.Equal(t, fault.CodeInvalidToken, fault.As(err).Code)
		})
	}
}

func TestTokensConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := auth.TokensConfig{Issuer: issuer, Audience: audience, SigningSeed: seed(1)}
	for name, change := range map[string]func(c *auth.TokensConfig){
		"no issuer":         func(c *auth.TokensConfig) { c.Issuer = "" },
		"no audience":       func(c *auth.TokensConfig) { c.Audience = "" },
		"no key":            func(c *auth.TokensConfig) { c.SigningSeed = nil },
		"bad verifying key": func(c *auth.TokensConfig) { c.VerifyingSeeds = [][]byte{{1}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			change(&cfg)
			_, err := auth.NewTokens(cfg)
			require.Error(t, err)
		})
	}
}
