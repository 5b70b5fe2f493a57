package auth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
)

const (
	// TokenLifetime is how long a JWT is good for, as docs/reference/api.md promises.
	TokenLifetime = 60 * time.Minute
	// clockSkew is how far behind the clock of another API process may be: a token
	// is valid that much before it was issued, never after it has expired.
	clockSkew = 5 * time.Second
	// maxToken is the most bytes of a token that is looked at; ours have about 500.
	maxToken = 4096

	tokenType = "JWT"
)

// TokensConfig says who signs and what is accepted.
type TokensConfig struct {
	Issuer   string
	Audience string
	// SigningSeed is the Ed25519 seed, 32 bytes, of the key that signs new tokens.
	SigningSeed []byte
	// VerifyingSeeds are of keys that signed before: their tokens are still good.
	VerifyingSeeds [][]byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Tokens signs and verifies JWTs (EdDSA over Ed25519).
type Tokens struct {
	cfg     TokensConfig
	signing ed25519.PrivateKey
	kid     string
	keys    map[string]ed25519.PublicKey
	parser  *jwt.Parser
}

// claims are those of a user's token. The tenant is signed, not looked up: it is
// what row-level security is set to before the session is read.
type claims struct {
	jwt.RegisteredClaims
	TenantID  string `json:"tid"`
	SessionID string `json:"sid"`
}

// Claims are what a verified token says.
type Claims struct {
	UserID, TenantID, SessionID uuid.UUID
}

// NewTokens checks the configuration. The kid of a key is derived from it, so two
// processes with one key always agree on its name.
func NewTokens(cfg TokensConfig) (*Tokens, error) {
	if cfg.Issuer == "" || cfg.Audience == "" {
		return nil, errors.New("auth: tokens need an issuer and an audience")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &Tokens{cfg: cfg, keys: map[string]ed25519.PublicKey{}}
	for i, seed := range append([][]byte{cfg.SigningSeed}, cfg.VerifyingSeeds...) {
		if len(seed) != ed25519.SeedSize {
			return nil, errors.New("auth: the seed of a signing key has 32 bytes")
		}
		key := ed25519.NewKeyFromSeed(seed)
		public, _ := key.Public().(ed25519.PublicKey)
		t.keys[keyID(public)] = public
		if i == 0 {
			t.signing, t.kid = key, keyID(public)
		}
	}
	t.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithStrictDecoding(),
		jwt.WithExpirationRequired(),
		jwt.WithNotBeforeRequired(),
		jwt.WithIssuer(cfg.Issuer),
		jwt.WithAudience(cfg.Audience),
		jwt.WithTimeFunc(cfg.Now),
	)
	return t, nil
}

func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Issue signs a token of a session; it expires after TokenLifetime.
func (t *Tokens) Issue(userID, tenantID, sessionID uuid.UUID) (token string, lifetime time.Duration, err error) {
	now := t.cfg.Now()
	tok := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    t.cfg.Issuer,
			Audience:  jwt.ClaimStrings{t.cfg.Audience},
			Subject:   userID.String(),
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now.Add(-clockSkew)),
			ExpiresAt: jwt.NewNumericDate(now.Add(TokenLifetime)),
		},
		TenantID:  tenantID.String(),
		SessionID: sessionID.String(),
	})
	tok.Header["kid"] = t.kid
	token, err = tok.SignedString(t.signing)
	if err != nil {
		return "", 0, fmt.Errorf("auth: sign token: %w", err)
	}
	return token, TokenLifetime, nil
}

// invalidToken says what to do about a JWT that counts for nothing.
const invalidToken = "The token is not valid. Log in again with POST /v1/auth/login."

// Verify checks form, signature and claims, not the session. It refuses with
// INVALID_TOKEN, or with TOKEN_EXPIRED where nothing else is wrong.
func (t *Tokens) Verify(raw string) (Claims, error) {
	if len(raw) > maxToken {
		return Claims{}, fault.New(fault.CodeInvalidToken, invalidToken)
	}
	var c claims
	if _, err := t.parser.ParseWithClaims(raw, &c, t.key); err != nil {
		if onlyExpired(err) {
			return Claims{}, fault.New(fault.CodeTokenExpired, "The token has expired. Refresh it with POST /v1/auth/refresh, or log in again.").Because(err)
		}
		return Claims{}, fault.New(fault.CodeInvalidToken, invalidToken).Because(err)
	}
	return c.read()
}

// key picks the verifying key by the header and refuses what the library does not
// look at: the type, and extensions (crit) that we would have to understand.
func (t *Tokens) key(tok *jwt.Token) (any, error) {
	if typ, _ := tok.Header["typ"].(string); typ != tokenType {
		return nil, errors.New("auth: typ is not JWT")
	}
	if _, has := tok.Header["crit"]; has {
		return nil, errors.New("auth: crit is not supported")
	}
	kid, _ := tok.Header["kid"].(string)
	key, known := t.keys[kid]
	if !known {
		return nil, errors.New("auth: unknown kid")
	}
	return key, nil
}

// read takes what the validator has no option for: iat must be there, the life must
// not be longer than we give, and the ids must be ids.
func (c claims) read() (Claims, error) {
	if c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > TokenLifetime || c.ExpiresAt.Before(c.IssuedAt.Time) {
		return Claims{}, fault.New(fault.CodeInvalidToken, invalidToken)
	}
	var out Claims
	for _, id := range []struct {
		text string
		into *uuid.UUID
	}{{c.Subject, &out.UserID}, {c.TenantID, &out.TenantID}, {c.SessionID, &out.SessionID}} {
		parsed, err := uuid.Parse(id.text)
		if err != nil || parsed == uuid.Nil {
			return Claims{}, fault.New(fault.CodeInvalidToken, invalidToken)
		}
		*id.into = parsed
	}
	return out, nil
}

func onlyExpired(err error) bool {
	if !errors.Is(err, jwt.ErrTokenExpired) {
		return false
	}
	for _, other := range []error{
		jwt.ErrTokenInvalidIssuer, jwt.ErrTokenInvalidAudience, jwt.ErrTokenNotValidYet,
		jwt.ErrTokenRequiredClaimMissing,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}
