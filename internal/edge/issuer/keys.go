package issuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// freshFor is how long keys are used without a look at the issuer.
	freshFor = 10 * time.Minute
	// lastsFor is how long keys are used while the issuer cannot be reached. A key that the
	// issuer has withdrawn is not accepted for longer.
	lastsFor = time.Hour
	// fetchPause is the least time between two fetches. A token with an unknown key costs no
	// more than one.
	fetchPause = time.Minute
	fetchLimit = 10 * time.Second
	// maxKeys is the most bytes of a key set. Issuers publish a handful of keys.
	maxKeys = 256 << 10
	// RSA moduli: RFC 7518, section 3.3 asks for 2,048 bits. Verifying gets slow with length.
	rsaLeast, rsaMost = 2048, 8192
)

var errUnknownKey = errors.New("issuer: the issuer has no key of this id and algorithm")

// keySet is the issuer's published keys.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu       sync.Mutex
	keys     []key
	fetched  time.Time     // of keys
	tried    time.Time     // the last fetch, also one that failed
	failed   error         // why the last fetch failed
	fetching chan struct{} // closed when the fetch that is under way ends; nil without one
}

// key is one public key that verifies one algorithm.
type key struct {
	id, algorithm string
	public        any
}

// find returns the key of an id. An empty id finds the only key of the algorithm. Fresh keys are
// used at once, so that a stranger's token makes nobody else wait for the issuer. Without one,
// callers wait for the fetch that is under way.
func (s *keySet) find(ctx context.Context, id, algorithm string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	public, err := s.usable(id, algorithm)
	if err == nil && s.now().Sub(s.fetched) < freshFor {
		return public, nil
	}
	if s.fetching == nil && s.now().Sub(s.tried) >= fetchPause {
		s.tried, s.fetching = s.now(), make(chan struct{})
		go s.renew(context.WithoutCancel(ctx), s.fetching)
	}
	if s.fetching == nil {
		return public, err
	}
	done := s.fetching
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("issuer: wait for the keys: %w", err)
	}
	if public, err = s.usable(id, algorithm); err != nil && s.failed != nil {
		return nil, s.failed
	}
	return public, err
}

// renew fetches the keys for all callers, and then closes done.
func (s *keySet) renew(ctx context.Context, done chan struct{}) {
	keys, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err == nil {
		s.keys, s.fetched = keys, s.now()
	}
	s.fetching = nil
	close(done)
}

// usable returns a key that is known and not too old.
func (s *keySet) usable(id, algorithm string) (any, error) {
	public, err := s.known(id, algorithm)
	if err == nil && s.now().Sub(s.fetched) >= lastsFor {
		return nil, errors.New("issuer: the keys are too old, and the issuer cannot be reached")
	}
	return public, err
}

func (s *keySet) known(id, algorithm string) (any, error) {
	var found []any
	for _, k := range s.keys {
		if k.algorithm == algorithm && (id == "" || k.id == id) {
			found = append(found, k.public)
		}
	}
	if len(found) != 1 {
		return nil, errUnknownKey
	}
	return found[0], nil
}

func (s *keySet) fetch(ctx context.Context) ([]key, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("issuer: fetch the keys: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("issuer: fetch the keys: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("issuer: fetch the keys: HTTP %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxKeys+1))
	if err != nil {
		return nil, fmt.Errorf("issuer: fetch the keys: %w", err)
	}
	if len(text) > maxKeys {
		return nil, fmt.Errorf("issuer: fetch the keys: more than %d bytes", maxKeys)
	}
	return parse(text)
}

// published is a key as RFC 7517 and RFC 7518 write it.
type published struct {
	Kind      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
	Modulus   string `json:"n"`
	Exponent  string `json:"e"`
}

// parse returns the keys of a set that verify signatures. Keys for something else, and those
// that are not understood, are skipped, as RFC 7517, section 5 says.
func parse(text []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("issuer: the keys are not a JSON Web Key Set")
	}
	var keys []key
	for _, raw := range set.Keys {
		var p published
		if json.Unmarshal(raw, &p) != nil || p.Use != "" && p.Use != "sig" {
			continue
		}
		algorithm, public := p.read()
		// RFC 9864 names EdDSA by its curve.
		if public == nil || !slices.Contains([]string{"", algorithm, p.Curve}, p.Algorithm) {
			continue
		}
		keys = append(keys, key{id: p.ID, algorithm: algorithm, public: public})
	}
	if len(keys) == 0 {
		return nil, errors.New("issuer: none of the keys verifies EdDSA, RS256 or ES256")
	}
	return keys, nil
}

// read returns the key and the one algorithm that it verifies, nil for a key that is weak or
// not understood.
func (p published) read() (algorithm string, public any) {
	decode := base64.RawURLEncoding.Strict().DecodeString
	switch p.Kind + " " + p.Curve {
	case "OKP Ed25519":
		if x, err := decode(p.X); err == nil && len(x) == ed25519.PublicKeySize {
			return jwt.SigningMethodEdDSA.Alg(), ed25519.PublicKey(x)
		}
	case "EC P-256":
		x, errX := decode(p.X)
		y, errY := decode(p.Y)
		if errX != nil || errY != nil || len(x) != 32 || len(y) != 32 {
			return "", nil
		}
		// It refuses a point that is not on the curve.
		if point, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...)); err == nil {
			return jwt.SigningMethodES256.Alg(), point
		}
	case "RSA ":
		n, errN := decode(p.Modulus)
		e, errE := decode(p.Exponent)
		if errN != nil || errE != nil || len(e) > 4 {
			return "", nil
		}
		modulus, exponent := new(big.Int).SetBytes(n), int(new(big.Int).SetBytes(e).Int64())
		if modulus.BitLen() < rsaLeast || modulus.BitLen() > rsaMost || exponent < 3 || exponent%2 == 0 {
			return "", nil
		}
		return jwt.SigningMethodRS256.Alg(), &rsa.PublicKey{N: modulus, E: exponent}
	}
	return "", nil
}
