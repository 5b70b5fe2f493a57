// Package issuer verifies tokens of an issuer that operators run themselves, by the keys that
// it publishes (JSON Web Key Set, RFC 7517). The codec endpoint calls it. It issues nothing,
// and knows neither users nor tenants of the service.
package issuer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// leeway is how far the clock of the issuer may be from ours.
const leeway = 10 * time.Second

// maxToken is the most bytes of a token. Tokens that list many groups have a few thousand.
const maxToken = 16 << 10

// Config says which tokens are accepted.
type Config struct {
	// KeysURL is where the issuer publishes its keys.
	KeysURL string
	// Issuer and Audience are the values of iss and aud.
	Issuer, Audience string
	// Claim is the name of a claim that a token must have, Value its value: the claim is this
	// text, or a list with it. The claims scope and scp may also be words with spaces between.
	Claim, Value string
}

// Verifier verifies tokens. It keeps the issuer's keys for a while.
type Verifier struct {
	cfg    Config
	keys   *keySet
	parser *jwt.Parser
}

// New returns a verifier that fetches keys by client. It returns an error for a setting that
// is missing.
func New(cfg Config, client *http.Client, now func() time.Time) (*Verifier, error) {
	if slices.Contains([]string{cfg.KeysURL, cfg.Issuer, cfg.Audience, cfg.Claim, cfg.Value}, "") || client == nil || now == nil {
		return nil, errors.New("issuer: address of the keys, issuer, audience, claim, its value, client and clock are required")
	}
	return &Verifier{
		cfg: cfg, keys: &keySet{url: cfg.KeysURL, client: client, now: now},
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg(), jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg()}),
			jwt.WithStrictDecoding(),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithIssuer(cfg.Issuer),
			jwt.WithAudience(cfg.Audience),
			jwt.WithLeeway(leeway),
			jwt.WithTimeFunc(now),
		),
	}, nil
}

// Verify returns nil for a token that the issuer signed, that is valid now, and that has the
// claim. The error says what is wrong, without the token.
func (v *Verifier) Verify(ctx context.Context, token string) error {
	if token == "" || len(token) > maxToken {
		return errors.New("issuer: no token, or one that is too long")
	}
	claims := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) { return v.key(ctx, t) }); err != nil {
		return err
	}
	if !has(claims[v.cfg.Claim], v.cfg.Value, v.cfg.Claim == "scope" || v.cfg.Claim == "scp") {
		return errors.New("issuer: the token does not have the claim that is required")
	}
	return nil
}

// key returns the key of the token's header. It refuses what the library does not look at: a
// token of another purpose, and extensions (crit) that would have to be understood.
func (v *Verifier) key(ctx context.Context, t *jwt.Token) (any, error) {
	if typ, given := t.Header["typ"]; given {
		text, _ := typ.(string)
		if !slices.Contains([]string{"jwt", "at+jwt", "application/at+jwt"}, strings.ToLower(text)) {
			return nil, errors.New("issuer: typ is neither JWT nor at+jwt")
		}
	}
	if _, given := t.Header["crit"]; given {
		return nil, errors.New("issuer: crit is not supported")
	}
	id, _ := t.Header["kid"].(string)
	return v.keys.find(ctx, id, t.Method.Alg())
}

// has reports whether a claim has the value.
func has(claim any, value string, words bool) bool {
	switch claim := claim.(type) {
	case string:
		return claim == value || words && slices.Contains(strings.Fields(claim), value)
	case []any:
		return slices.ContainsFunc(claim, func(one any) bool { return one == value })
	default:
		return false
	}
}
